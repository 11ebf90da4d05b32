#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

/// Whether somebody else may have put a file where it is found; not installed.
namespace fla::dispatch {

/// Whose files are believed, and where nothing is judged.
struct Trust {
  /// Root; the user as whom the process acts, unless it has more rights than that user; the owner of the
  /// libfla that runs, whose code is in the process already.
  std::vector<uid_t> owners;
  /// The folder of that libfla. Whoever may write to it or to a folder above it may replace libfla itself:
  /// these are not judged.
  std::string library_folder;

  static Trust of_process();
};

/// Why the file at an absolute path may not be loaded; empty: nothing speaks against it. Every folder and
/// every link that the kernel meets on its way to the file is judged, in that order:
///
/// - The file, the links and the folders belong to a trusted owner.
/// - Nobody else may write to the file or to a folder: neither the group nor others, by their modes.
/// - A folder with the sticky bit, such as /tmp, may be on the way though others write to it: they cannot
///   replace what a trusted owner has in it. The file itself, or a link in place of it, may not lie there:
///   what else lies there is anybody's.
///
/// A component that was judged cannot be changed by others afterwards, so that what was found safe stays so.
std::string unsafe(const std::string& path, const Trust& trust = Trust::of_process());

}  // namespace fla::dispatch
