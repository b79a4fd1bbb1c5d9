// The cuDNN calls that torch makes outside of ops that are emulated whole: handles, dropout state, and where in its one
// buffer the weights of a recurrent network lie.
#include <cudnn.h>
#include <dlfcn.h>

#include <cstddef>

#define TENSORPAGER_CUDNN_API extern "C" __attribute__((visibility("default"))) cudnnStatus_t

namespace {

/// Layout: the matrices of all pseudo-layers (a layer in one direction), each the gates' input matrices, then their
/// recurrent ones, then the projection; then the biases of all, in the same order.
struct RecurrentNetwork {
  cudnnRNNMode_t mode;
  cudnnRNNBiasMode_t bias_mode;
  cudnnDirectionMode_t direction;
  cudnnDataType_t type;
  std::size_t inputs;
  std::size_t hidden;
  std::size_t projected;  // as many as hidden if there is no projection
  std::size_t layers;

  std::size_t gates() const { return mode == CUDNN_LSTM ? 4 : mode == CUDNN_GRU ? 3 : 1; }
  std::size_t directions() const { return direction == CUDNN_BIDIRECTIONAL ? 2 : 1; }
  std::size_t pseudo_layers() const { return layers * directions(); }
  std::size_t inputs_of(std::size_t pseudo_layer) const {
    return pseudo_layer < directions() ? inputs : projected * directions();
  }
  std::size_t matrices(std::size_t pseudo_layer) const {  // elements
    const std::size_t projection = projected == hidden ? 0 : projected * hidden;
    return gates() * hidden * (inputs_of(pseudo_layer) + projected) + projection;
  }
  std::size_t matrices_before(std::size_t pseudo_layer) const {
    std::size_t elements = 0;
    for (std::size_t i = 0; i < pseudo_layer; ++i) elements += matrices(i);
    return elements;
  }
  std::size_t biases() const {  // elements, of a pseudo-layer
    return bias_mode == CUDNN_RNN_NO_BIAS ? 0 : 2 * gates() * hidden;
  }
  std::size_t element_bytes() const { return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2; }
  std::size_t bytes() const {
    return (matrices_before(pseudo_layers()) + pseudo_layers() * biases()) * element_bytes();
  }
};

/// A matrix in the buffer. No rows: there is none.
struct Matrix {
  std::size_t offset = 0;  // elements
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// `index` counts a pseudo-layer's input matrices, then its recurrent ones, then the projection.
Matrix find_matrix(const RecurrentNetwork& network, std::size_t pseudo_layer, std::size_t index) {
  const std::size_t begin = network.matrices_before(pseudo_layer);
  const std::size_t gates = network.gates();
  const std::size_t input = network.hidden * network.inputs_of(pseudo_layer);
  const std::size_t recurrent = network.hidden * network.projected;
  if (index < gates) return {begin + index * input, network.hidden, network.inputs_of(pseudo_layer)};
  if (index < 2 * gates)
    return {begin + gates * input + (index - gates) * recurrent, network.hidden, network.projected};
  if (network.projected == network.hidden) return {};
  return {begin + gates * (input + recurrent), network.projected, network.hidden};
}

const RecurrentNetwork& network_of(cudnnRNNDescriptor_t descriptor) {
  return *reinterpret_cast<const RecurrentNetwork*>(descriptor);
}

/// Torch reads the descriptor back with cuDNN's own functions, so cuDNN writes it.
cudnnStatus_t describe(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type, std::size_t rows,
                       std::size_t columns) {
  static const auto set = reinterpret_cast<decltype(&cudnnSetTensorNdDescriptor)>(
      dlsym(dlopen("libcudnn.so.9", RTLD_LAZY), "cudnnSetTensorNdDescriptor"));
  if (!set) return CUDNN_STATUS_NOT_SUPPORTED;
  const int sizes[] = {1, static_cast<int>(rows), static_cast<int>(columns)};
  const int strides[] = {static_cast<int>(rows * columns), static_cast<int>(columns), 1};
  return set(descriptor, type, 3, sizes, strides);
}

std::byte* at(const void* buffer, std::size_t elements, const RecurrentNetwork& network) {
  return static_cast<std::byte*>(const_cast<void*>(buffer)) + elements * network.element_bytes();
}

}  // namespace

TENSORPAGER_CUDNN_API cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new char);
  return CUDNN_STATUS_SUCCESS;
}

TENSORPAGER_CUDNN_API cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
  return CUDNN_STATUS_SUCCESS;
}

TENSORPAGER_CUDNN_API cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }

TENSORPAGER_CUDNN_API cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* descriptor) {
  *descriptor = reinterpret_cast<cudnnRNNDescriptor_t>(new RecurrentNetwork{});
  return CUDNN_STATUS_SUCCESS;
}

TENSORPAGER_CUDNN_API cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t descriptor) {
  delete reinterpret_cast<RecurrentNetwork*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

TENSORPAGER_CUDNN_API cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t descriptor, cudnnRNNAlgo_t, cudnnRNNMode_t mode,
                                               cudnnRNNBiasMode_t bias_mode, cudnnDirectionMode_t direction,
                                               cudnnRNNInputMode_t, cudnnDataType_t type, cudnnDataType_t,
                                               cudnnMathType_t, int32_t inputs, int32_t hidden, int32_t projected,
                                               int32_t layers, cudnnDropoutDescriptor_t, uint32_t) {
  *reinterpret_cast<RecurrentNetwork*>(descriptor) = {.mode = mode,
                                                      .bias_mode = bias_mode,
                                                      .direction = direction,
                                                      .type = type,
                                                      .inputs = static_cast<std::size_t>(inputs),
                                                      .hidden = static_cast<std::size_t>(hidden),
                                                      .projected = static_cast<std::size_t>(projected),
                                                      .layers = static_cast<std::size_t>(layers)};
  return CUDNN_STATUS_SUCCESS;
}

TENSORPAGER_CUDNN_API cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t descriptor, size_t* bytes) {
  *bytes = network_of(descriptor).bytes();
  return CUDNN_STATUS_SUCCESS;
}

TENSORPAGER_CUDNN_API cudnnGetRNNWeightParams(cudnnHandle_t, cudnnRNNDescriptor_t descriptor, int32_t pseudo_layer,
                                              size_t, const void* buffer, int32_t matrix_index,
                                              cudnnTensorDescriptor_t matrix_descriptor, void** matrix_address,
                                              cudnnTensorDescriptor_t bias_descriptor, void** bias_address) {
  const RecurrentNetwork& network = network_of(descriptor);
  const auto layer = static_cast<std::size_t>(pseudo_layer);
  const auto index = static_cast<std::size_t>(matrix_index);
  const Matrix matrix = find_matrix(network, layer, index);
  if (matrix_address) *matrix_address = matrix.rows > 0 ? at(buffer, matrix.offset, network) : nullptr;
  const bool has_bias = network.biases() > 0 && index < 2 * network.gates();
  const std::size_t bias =
      network.matrices_before(network.pseudo_layers()) + layer * network.biases() + index * network.hidden;
  if (bias_address) *bias_address = has_bias ? at(buffer, bias, network) : nullptr;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (matrix_descriptor && matrix.rows > 0)
    status = describe(matrix_descriptor, network.type, matrix.rows, matrix.columns);
  if (status == CUDNN_STATUS_SUCCESS && bias_descriptor && has_bias)
    status = describe(bias_descriptor, network.type, network.hidden, 1);
  return status;
}

TENSORPAGER_CUDNN_API cudnnDropoutGetStatesSize(cudnnHandle_t, size_t* bytes) {
  *bytes = size_t{1} << 20;
  return CUDNN_STATUS_SUCCESS;
}

TENSORPAGER_CUDNN_API cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t, cudnnHandle_t, float, void*, size_t,
                                                unsigned long long) {
  return CUDNN_STATUS_SUCCESS;
}

TENSORPAGER_CUDNN_API cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t, cudnnHandle_t, float, void*, size_t,
                                                    unsigned long long) {
  return CUDNN_STATUS_SUCCESS;
}
