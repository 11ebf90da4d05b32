// Opens libfla as a plugin of another program does, has it watch a config file, and closes it while the file
// changes: closed_library LIBRARY, with FLA_CONFIG set.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

int main(int count, char** words) {
  const char* config = std::getenv("FLA_CONFIG");
  if (count != 2 || config == nullptr) return 2;
  void* library = ::dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 3;
  auto* reload = reinterpret_cast<void (*)()>(::dlsym(library, "_ZN3fla18reload_environmentEv"));
  if (reload == nullptr) return 4;
  reload();
  for (int i = 0; i < 20; ++i) {
    const std::string next = std::string(config) + ".next";
    std::ofstream(next) << "breaker.threshold = " << i << "\n";
    std::rename(next.c_str(), config);
    if (i == 5) ::dlclose(library);
    ::usleep(2000);
  }
  std::puts(::dlopen(words[1], RTLD_NOW | RTLD_NOLOAD) != nullptr ? "still there" : "gone");
  return 0;
}
