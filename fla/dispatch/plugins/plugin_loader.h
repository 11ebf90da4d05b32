#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/plugins/arrival.h"
#include "fla/dispatch/plugins/plugin.h"

/// Finding and opening plugins; not installed. Whether what they bring is taken in is decided above.
namespace fla::dispatch {

class Plugins {
 public:
  static Plugins& instance();

  /// Looks for plugins in the folders and files of FLA_PLUGIN_PATH's value and in fla/plugins beside libfla.
  /// Those that are known stay as they are. Runs none of their code.
  void find(const std::string& plugin_path);

  /// Adds one file, as if it stood in FLA_PLUGIN_PATH.
  PluginStatus add(const std::string& path);

  /// Whether a file serves the op, or may, that has not been loaded, is being loaded just now, or has been
  /// refused and not yet been reported for the op.
  bool may_serve(std::string_view op) const;

  /// What files that have not been loaded may bring beyond what they say: ops that nobody has yet, backends
  /// of that op.
  bool may_bring_ops() const;
  bool may_bring_backends(std::string_view op) const;

  /// "op.backend", as such files say; they may be refused yet.
  std::vector<std::string> promised_backends() const;

  /// The ops that files say they serve which have not been loaded.
  std::vector<std::string> ops() const;

  /// Opens every such file and says what came of it; a refused one is among them once for every op that it
  /// serves, or may. One thread at a time; foreign code runs: no lock may be held. Whoever calls tells the
  /// outcome by settle().
  std::vector<Arrival> load_for(std::string_view op);

  /// What became of an arrival that was not refused: "" when what it brought is in. Otherwise the library is
  /// closed, with no lock held, since its code runs: nothing of the arrival may be used any more.
  void settle(const std::string& path, const std::string& refused);

  std::vector<PluginStatus> status() const;

 private:
  enum class State { found, loading, loaded, refused };

  struct File {
    std::string path;
    std::string found_as;  ///< absolute; links may be in it
    State state = State::found;
    std::string name, reason, library_version;
    bool ops_known = false;
    bool complete = false;  ///< whether ops and backends are all that it registers
    std::vector<std::string> ops, backends;
    void* handle = nullptr;
    std::vector<std::string> reported;  ///< the ops that the registry has heard of it for
    std::atomic<bool> told{false};      ///< whether the log has been told of the refusal

    bool serves(std::string_view op) const;
    bool waits_for(std::string_view op) const;
    void learn(std::string version, void* opened, const Arrival& arrival);
  };

  Plugins();
  File& look_at(const std::string& path, bool in_folder);
  void look_into(const std::string& folder);
  static void tell(File& file);
  File* known(std::string_view path);
  static PluginStatus status_of(const File& file);

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<File>> files_;
};

}  // namespace fla::dispatch
