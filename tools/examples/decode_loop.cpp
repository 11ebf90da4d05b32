// Decoding as a server does it: a pool of states, of which each request has a slot, and one call a step for
// all requests that are there. Requests come and go; states are updated in place.
#include <fla/fla.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <vector>

constexpr std::int64_t kSlots = 4, kHeads = 2, kChannels = 32, kTokens = 6;

struct Request {
  std::int32_t slot;
  std::int64_t comes, goes;  // steps
  float seed;
};

// What the model's projections would give: channel i of token t of a request.
float number(const Request& request, std::int64_t t, std::int64_t i, float phase) {
  return std::sin(request.seed + phase + 0.37f * static_cast<float>(t) + 0.11f * static_cast<float>(i));
}

// Tokens [begin, end) of requests, one after the other: [1, T, H, D].
struct Tokens {
  Tokens(const std::vector<Request>& requests, std::int64_t begin, std::int64_t end)
      : T(static_cast<std::int64_t>(requests.size()) * (end - begin)) {
    std::int64_t row = 0;
    for (const Request& request : requests) {
      for (std::int64_t t = begin; t < end; ++t, ++row) {
        for (std::int64_t i = 0; i < kHeads * kChannels; ++i) {
          const std::int64_t at = row * kHeads * kChannels + i;
          q.as<float>()[at] = number(request, t, i, 0);
          k.as<float>()[at] = number(request, t, i, 1);
          v.as<float>()[at] = number(request, t, i, 2);
          g.as<float>()[at] = -0.1f + 0.05f * number(request, t, i, 3);
        }
      }
    }
    std::fill_n(beta.as<float>(), beta.numel(), 0.5f);
  }

  fla::KdaArgs args() const {
    return {.q = q, .k = k, .v = v, .g = g, .beta = beta, .use_qk_l2norm_in_kernel = true};
  }

  std::int64_t T;
  fla::Tensor q = tensor(), k = tensor(), v = tensor(), g = tensor(),
              beta = fla::Tensor::empty({1, T, kHeads}, fla::DType::f32);

 private:
  fla::Tensor tensor() const { return fla::Tensor::empty({1, T, kHeads, kChannels}, fla::DType::f32); }
};

int main() {
  const std::vector<Request> requests{{.slot = 2, .comes = 0, .goes = 6, .seed = 0.1f},
                                      {.slot = 0, .comes = 1, .goes = 4, .seed = 0.2f},
                                      {.slot = 3, .comes = 3, .goes = 6, .seed = 0.3f}};
  const fla::Tensor pool = fla::Tensor::zeros({kSlots, kHeads, kChannels, kChannels}, fla::DType::f32);

  for (std::int64_t step = 0; step < kTokens; ++step) {
    std::vector<Request> there;
    std::vector<std::int32_t> slots, starts{0};
    for (const Request& request : requests) {
      if (step < request.comes || step >= request.goes) continue;
      there.push_back(request);
      slots.push_back(request.slot);
      starts.push_back(starts.back() + 1);  // one token each
    }
    const auto count = static_cast<std::int64_t>(there.size());
    const Tokens tokens(there, step, step + 1);
    fla::KdaArgs args = tokens.args();
    args.cu_seqlens = {starts.data(), fla::DType::i32, {count + 1}};
    args.state_indices = {slots.data(), fla::DType::i32, {count}};  // a negative one would be skipped
    args.initial_state = args.final_state = pool;
    const fla::Tensor o = fla::kda(args).o;
    std::cout << "step " << step << ": " << count << " requests in slots";
    for (const std::int32_t slot : slots) std::cout << ' ' << slot;
    std::cout << ", o " << o.view().describe() << "\n";
  }

  // Each state is what one call over all the request's tokens leaves.
  for (const Request& request : requests) {
    const Tokens tokens({request}, request.comes, request.goes);
    fla::KdaArgs args = tokens.args();
    args.output_final_state = true;
    const fla::Tensor state = fla::kda(args).final_state;
    float difference = 0;
    for (std::int64_t i = 0; i < state.numel(); ++i) {
      const float decoded = pool.as<float>()[request.slot * state.numel() + i];
      difference = std::max(difference, std::abs(decoded - state.as<float>()[i]));
    }
    std::cout << "slot " << request.slot << ": " << tokens.T << " tokens, off by " << difference << "\n";
  }
}
