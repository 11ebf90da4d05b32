#pragma once

#include <cstdint>

/// How long ranks take to exchange blocks, by a model that counts bytes and steps. Exchanges do not overlap
/// with anything, and links reach their rates.
namespace fla::bench {

/// What the links of a GPU do, each way: those within a node, and those between nodes.
struct Links {
  std::int64_t node = 8;                              ///< GPUs a node
  double nvlink = 450e9, infiniband = 50e9;           ///< bytes a second
  double nvlink_step = 3e-6, infiniband_step = 6e-6;  ///< seconds before the first byte comes
};

/// Every rank has the block of `bytes` of every rank afterwards: a tree of steps. A node's ranks share what
/// comes in from others, each a part of it over its own link, and pass it on.
double all_gather_seconds(const Links& links, std::int64_t ranks, double bytes);

/// Every rank gives each rank an equal part of its `bytes`, all at once.
double all_to_all_seconds(const Links& links, std::int64_t ranks, double bytes);

}  // namespace fla::bench
