// Requests of random lengths, served by the engine in three ways: each by itself, all together, and all
// together with a cache of prefixes and with drafts. Every token has to be the same.
//
//     engine [REQUESTS]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <string>

#include "engine.h"

namespace {

// Prompts begin with one of a few texts, as those of a service do, and then say something of their own.
std::vector<Request> random_requests(int count) {
  std::mt19937_64 random(7);
  const auto number = [&](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
  std::vector<std::vector<Token>> texts(6);
  for (std::vector<Token>& text : texts) {
    text.resize(static_cast<std::size_t>(number(50, 110)));
    for (Token& token : text) token = number(0, kVocabulary - 1);
  }
  std::vector<Request> requests(static_cast<std::size_t>(count));
  for (Request& request : requests) {
    request.prompt = texts[static_cast<std::size_t>(number(0, 5))];
    for (int left = number(1, 16); left > 0; --left) request.prompt.push_back(number(0, kVocabulary - 1));
    request.wanted = number(1, 16);
  }
  return requests;
}

std::int64_t resident_bytes() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * 4096;
}

void serve(const char* how, const Model& model, const Settings& settings, std::vector<Request>& requests) {
  Engine engine(model, settings);
  const auto start = std::chrono::steady_clock::now();
  engine.run(requests);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const Counts& counts = engine.counts();
  const auto tokens = static_cast<double>(counts.step_tokens);
  std::cout << how << ": " << static_cast<std::int64_t>(tokens / took.count()) << " tokens a second, "
            << static_cast<std::int64_t>(static_cast<double>(counts.state_bytes) / tokens)
            << " bytes of states a token, " << tokens / static_cast<double>(counts.steps)
            << " tokens a step, " << 100 * counts.cached_tokens / counts.prompt_tokens
            << " % of the prompts' tokens from the cache\n";
}

}  // namespace

int main(int count, char** words) {
  // The same bits for a sequence by itself and beside others, and when its prompt is cut: the same tokens.
  fla::set_policy({.batch_invariant = true});
  const Model model(1);
  const std::vector<Request> requests = random_requests(count > 1 ? std::max(1, std::atoi(words[1])) : 200);

  std::vector<Request> alone = requests, together = requests, all = requests;
  serve("one by one", model, {.together = 1, .cached = 0, .drafts = 0}, alone);
  serve("together", model, {.cached = 0, .drafts = 0}, together);
  const std::int64_t before = resident_bytes();
  serve("with cache and drafts", model, {}, all);
  const std::int64_t grown = resident_bytes() - before;

  std::int64_t tokens = 0, different = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (std::size_t t = 0; t < alone[i].generated.size(); ++t, ++tokens) {
      const Token token = alone[i].generated[t];
      different += t >= together[i].generated.size() || t >= all[i].generated.size() ||
                   together[i].generated[t] != token || all[i].generated[t] != token;
    }
  }
  std::cout << requests.size() << " requests, " << tokens
            << " tokens: " << (different == 0 ? "all the same" : std::to_string(different) + " DIFFER")
            << "; memory grew by " << grown / 1024 << " KiB\n";
  return different == 0 ? 0 : 1;
}
