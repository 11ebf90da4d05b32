#pragma once

#include <cuda_runtime_api.h>

#include <exception>
#include <vector>

#include "tests/gpu/gpu.h"

namespace fla_test {

/// What body() put on a stream, recorded, to be run any number of times. In Global mode nobody may allocate
/// or wait meanwhile, on any thread, other than in the order of a stream that is recorded.
class CudaGraph {
 public:
  template <class Body>
  CudaGraph(const CudaStream& stream, cudaStreamCaptureMode mode, Body&& body) : stream_(stream) {
    fla::check_cuda(cudaStreamBeginCapture(stream.handle(), mode), "beginning to record");
    std::exception_ptr thrown;
    try {
      body();
    } catch (...) {
      thrown = std::current_exception();
    }
    const cudaError_t ended = cudaStreamEndCapture(stream.handle(), &graph_);
    if (thrown) std::rethrow_exception(thrown);
    fla::check_cuda(ended, "ending to record");
    fla::check_cuda(cudaGraphInstantiate(&runnable_, graph_, 0), "making a graph that runs");
  }
  ~CudaGraph() {
    if (runnable_ != nullptr) (void)cudaGraphExecDestroy(runnable_);
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  /// Puts it on its stream.
  void launch() const { fla::check_cuda(cudaGraphLaunch(runnable_, stream_.handle()), "launching a graph"); }

  /// The kinds of its nodes.
  std::vector<cudaGraphNodeType> nodes() const {
    std::size_t count = 0;
    fla::check_cuda(cudaGraphGetNodes(graph_, nullptr, &count), "counting nodes");
    std::vector<cudaGraphNode_t> handles(count);
    fla::check_cuda(cudaGraphGetNodes(graph_, handles.data(), &count), "listing nodes");
    std::vector<cudaGraphNodeType> kinds(count);
    for (std::size_t i = 0; i < count; ++i)
      fla::check_cuda(cudaGraphNodeGetType(handles[i], &kinds[i]), "asking for a node's kind");
    return kinds;
  }

 private:
  const CudaStream& stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t runnable_ = nullptr;
};

}  // namespace fla_test
