#include "engine.h"

#include <algorithm>

namespace {

constexpr std::int64_t kEvery = fla::kInvariantTokens;

std::vector<Token> first_of(const std::vector<Token>& tokens, std::int64_t count) {
  return {tokens.begin(), tokens.begin() + count};
}

}  // namespace

// Slot 0 is empty, then each request has one and one a token of a step, then come those of the cache.
Engine::Engine(const Model& model, const Settings& settings)
    : model_(model),
      settings_(settings),
      pools_(1 + settings.together * (settings.drafts + 2) + settings.cached) {
  const std::int64_t own = settings.drafts + 2;
  for (std::int64_t i = 0; i < settings.together; ++i) free_slots_.push_back(1 + i * own);
  for (std::int64_t i = 0; i < settings.cached; ++i) free_cache_.push_back(1 + settings.together * own + i);
}

void Engine::run(std::vector<Request>& requests) {
  std::deque<Request*> waiting;
  for (Request& request : requests) waiting.push_back(&request);
  while (!waiting.empty() || !active_.empty()) {
    std::vector<Request*> next;
    while (!waiting.empty() && next.size() < free_slots_.size()) {
      next.push_back(waiting.front());
      waiting.pop_front();
    }
    if (!next.empty()) admit(next);
    if (!active_.empty()) step();
  }
}

// Reads the prompts of all new requests in one call, each from the longest prefix that is known.
void Engine::admit(std::vector<Request*> requests) {
  std::vector<Active> added;
  std::vector<std::int64_t> starts, in_use;
  std::vector<Piece> pieces;
  for (Request* request : requests) {
    Active active{.request = request, .slot = free_slots_.back()};
    free_slots_.pop_back();
    for (const Token token : request->prompt) add(active, token);
    std::int64_t known = 0;
    const Prefix* prefix = longest_prefix(request->prompt, known);
    if (prefix != nullptr) active.window = prefix->window;
    pieces.push_back({.slot = active.slot, .from = prefix != nullptr ? prefix->slot : Pools::kEmpty});
    in_use.push_back(pieces.back().from);
    starts.push_back(known);
    added.push_back(std::move(active));
    counts_.prompt_tokens += static_cast<std::int64_t>(request->prompt.size());
    counts_.cached_tokens += known;
  }
  // What this call leaves for others: the states after every 64 tokens that nobody has left yet.
  struct Left {
    std::size_t piece;
    std::int64_t tokens;
  };
  std::vector<Left> left;
  std::map<std::vector<Token>, std::int64_t> being_made;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::vector<Token>& prompt = requests[i]->prompt;
    pieces[i].tokens = std::span(prompt).subspan(static_cast<std::size_t>(starts[i]));
    pieces[i].window = &added[i].window;
    for (std::int64_t tokens = starts[i] + kEvery; tokens <= static_cast<std::int64_t>(prompt.size());
         tokens += kEvery) {
      const std::int64_t slot =
          being_made.contains(first_of(prompt, tokens)) ? -1 : slot_for_a_prefix(in_use);
      pieces[i].kept.push_back(static_cast<std::int32_t>(slot));
      if (slot < 0) continue;
      being_made[first_of(prompt, tokens)] = slot;
      left.push_back({i, tokens});
    }
  }
  const std::vector<Token> chosen = model_.read_prompts(pieces, pools_);
  for (const auto& [i, tokens] : left) {
    const std::vector<Token> name = first_of(requests[i]->prompt, tokens);
    const std::int64_t slot = being_made[name], end = tokens - starts[i];
    order_.push_front(name);
    Prefix prefix{.slot = slot, .window = added[i].window, .used = order_.begin()};
    prefix.window.cut_to(prefix.window.tokens() -
                         (static_cast<std::int64_t>(requests[i]->prompt.size()) - tokens));
    prefix.window.forget_what_is_too_old();
    for (int layer = 0; layer < kKdaLayers; ++layer) {  // the convolution's last inputs, the newest last
      float* const state = pools_.inputs[layer].as<float>() + slot * 3 * kInner * (kReach - 1);
      for (std::int64_t channel = 0; channel < 3 * kInner; ++channel) {
        for (std::int64_t j = 0; j < kReach - 1; ++j)
          state[channel * (kReach - 1) + j] =
              pieces[i]
                  .inputs[layer][static_cast<std::size_t>((end - kReach + 1 + j) * 3 * kInner + channel)];
      }
    }
    cache_[name] = std::move(prefix);
  }
  for (std::size_t i = 0; i < added.size(); ++i) {
    added[i].window.forget_what_is_too_old();
    take(added[i], chosen[i]);
    active_.push_back(std::move(added[i]));
  }
  let_the_finished_go();
}

// Their slots are for others then.
void Engine::let_the_finished_go() {
  std::erase_if(active_, [&](const Active& active) {
    if (static_cast<std::int64_t>(active.request->generated.size()) < active.request->wanted) return false;
    free_slots_.push_back(active.slot);
    return true;
  });
}

void Engine::add(Active& active, Token token) {
  const std::vector<Token>& tokens = active.tokens;
  if (tokens.size() >= 2) active.followed[{tokens[tokens.size() - 2], tokens.back()}] = token;
  active.tokens.push_back(token);
}

void Engine::take(Active& active, Token token) {
  add(active, token);
  active.request->generated.push_back(token);
}

// What followed the last two tokens when they were there before; a cheap guess, often right in texts.
std::vector<Token> Engine::draft(const Active& active) const {
  std::vector<Token> tokens(active.tokens.end() - 2, active.tokens.end()), drafts;
  for (int i = 0; i < settings_.drafts; ++i) {
    const auto found = active.followed.find(tokens);
    drafts.push_back(found != active.followed.end() ? found->second : 0);
    tokens = {tokens.back(), drafts.back()};
  }
  return drafts;
}

// One step of all requests: each reads its last token and its drafts. The first draft that is not what the
// model says ends what is taken; the state to go on from is the one after the last token that was right.
void Engine::step() {
  const std::int64_t T = settings_.drafts + 1;
  std::vector<std::vector<Token>> tokens;
  std::vector<Piece> pieces;
  for (Active& active : active_) {
    tokens.push_back({active.tokens.back()});
    if (T > 1) {
      const std::vector<Token> drafts = draft(active);
      tokens.back().insert(tokens.back().end(), drafts.begin(), drafts.end());
    }
    Piece piece{
        .window = &active.window, .slot = active.slot, .from = active.slot, .accepted = active.accepted};
    for (std::int64_t t = 0; T > 1 && t < T; ++t)
      piece.kept.push_back(static_cast<std::int32_t>(active.slot + 1 + t));
    pieces.push_back(std::move(piece));
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].tokens = tokens[i];
  const std::vector<Token> chosen = model_.step(pieces, pools_);
  counts_.steps += static_cast<std::int64_t>(active_.size());
  counts_.state_bytes +=
      static_cast<std::int64_t>(active_.size()) * (1 + T) * kKdaLayers * Pools::kStateBytes;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Active& active = active_[i];
    const Token* const says = chosen.data() + static_cast<std::int64_t>(i) * T;
    std::int64_t read = 0;
    bool right = true;
    while (right && static_cast<std::int64_t>(active.request->generated.size()) < active.request->wanted) {
      take(active, says[read]);
      ++read;
      ++counts_.step_tokens;
      right = read < T && tokens[i][static_cast<std::size_t>(read)] == says[read - 1];
    }
    active.accepted = static_cast<std::int32_t>(T > 1 ? read : 0);
    if (T > 1) keep_inputs(active, pieces[i], read);
    active.window.cut_to(active.window.tokens() - (T - read));
    active.window.forget_what_is_too_old();
  }
  let_the_finished_go();
}

// The convolution's last inputs after the tokens of a step that were right.
void Engine::keep_inputs(const Active& active, const Piece& piece, std::int64_t accepted) {
  for (int layer = 0; layer < kKdaLayers; ++layer) {
    float* const state = pools_.inputs[layer].as<float>() + active.slot * 3 * kInner * (kReach - 1);
    for (std::int64_t channel = 0; channel < 3 * kInner; ++channel) {
      float* const own = state + channel * (kReach - 1);
      for (std::int64_t t = 0; t < accepted; ++t) {
        std::copy(own + 1, own + kReach - 1, own);
        own[kReach - 2] = piece.inputs[layer][static_cast<std::size_t>(t * 3 * kInner + channel)];
      }
    }
  }
}

// At least one token of the prompt is left to be read: what follows it is what is asked for.
const Engine::Prefix* Engine::longest_prefix(const std::vector<Token>& prompt, std::int64_t& tokens) {
  tokens = (static_cast<std::int64_t>(prompt.size()) - 1) / kEvery * kEvery;
  for (; tokens > 0; tokens -= kEvery) {
    const auto found = cache_.find(first_of(prompt, tokens));
    if (found == cache_.end()) continue;
    order_.splice(order_.begin(), order_, found->second.used);
    return &found->second;
  }
  return nullptr;
}

// A free one, or that of the prefix that was used longest ago; none that this call reads.
std::int64_t Engine::slot_for_a_prefix(std::span<const std::int64_t> in_use) {
  if (free_cache_.empty()) {
    for (auto last = order_.rbegin(); last != order_.rend(); ++last) {
      const auto found = cache_.find(*last);
      if (std::ranges::find(in_use, found->second.slot) != in_use.end()) continue;
      const std::int64_t slot = found->second.slot;
      order_.erase(found->second.used);
      cache_.erase(found);
      return slot;
    }
    return -1;
  }
  const std::int64_t slot = free_cache_.back();
  free_cache_.pop_back();
  return slot;
}
