// Watches torch's own CUDA allocator and reports the storages that it gives out. Knows CUDA's runtime and c10 only: a
// card and the emulated one are the same here.
#pragma once

namespace tensorpager::intercept {
class DeviceStorages;
}

extern "C" {
/// From now on reports births and deaths to `storages`, which must live for ever; once in a process. Initialises CUDA.
void tensorpager_cuda_watch(tensorpager::intercept::DeviceStorages* storages);
/// Memory of device 0, as torch.cuda reports it: {bytes allocated now, the most so far, bytes reserved now, the most so
/// far}; zeros before CUDA is initialised.
void tensorpager_cuda_memory(unsigned long long figures[4]);
}
