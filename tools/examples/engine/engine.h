// Serves requests: all that are there go on together, a step at a time, and a request joins as soon as there
// is room. Prompts that begin like an earlier one start from the states that it left every 64 tokens; a
// drafter proposes tokens, and a step checks several at once.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "model.h"

struct Request {
  std::vector<Token> prompt;
  std::int64_t wanted;           // tokens to be generated
  std::vector<Token> generated;  // out
};

struct Settings {
  std::int64_t together = 8;  // requests at a time
  std::int64_t cached = 64;   // states in the cache of prefixes
  int drafts = 3;             // tokens that are proposed for a step
};

struct Counts {
  std::int64_t prompt_tokens = 0, cached_tokens = 0;  // cached: those of prompts that were not read again
  std::int64_t steps = 0, step_tokens = 0;            // of each request, and the tokens that they gave
  std::int64_t state_bytes = 0;                       // that steps read and wrote
};

class Engine {
 public:
  Engine(const Model& model, const Settings& settings);

  // Until every request has its tokens.
  void run(std::vector<Request>& requests);
  const Counts& counts() const { return counts_; }

 private:
  // The state after some tokens, which are its name.
  struct Prefix {
    std::int64_t slot;
    Window window;
    std::list<std::vector<Token>>::iterator used;  // its place in the order of use
  };
  struct Active {
    Request* request = nullptr;
    std::int64_t slot = 0;        // the state, and behind it a slot for every token of a step
    std::vector<Token> tokens{};  // the prompt and what was generated; the last one was not read yet
    std::map<std::vector<Token>, Token> followed{};  // for drafts: what came after two tokens
    Window window{};
    std::int32_t accepted = 0;  // tokens of the last step that were right
  };

  void admit(std::vector<Request*> requests);
  void step();
  void add(Active& active, Token token);
  void take(Active& active, Token token);
  void let_the_finished_go();
  std::vector<Token> draft(const Active& active) const;
  void keep_inputs(const Active& active, const Piece& piece, std::int64_t accepted);

  const Prefix* longest_prefix(const std::vector<Token>& prompt, std::int64_t& tokens);
  std::int64_t slot_for_a_prefix(std::span<const std::int64_t> in_use);

  const Model& model_;
  const Settings settings_;
  Pools pools_;
  Counts counts_;
  std::vector<Active> active_;
  std::vector<std::int64_t> free_slots_, free_cache_;
  std::map<std::vector<Token>, Prefix> cache_;
  std::list<std::vector<Token>> order_;  // of the cache's prefixes, the one used last in front
};
