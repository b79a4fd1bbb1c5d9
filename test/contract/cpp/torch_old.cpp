// A libtorch_cpu.so from before versions could be asked for.
extern "C" [[gnu::visibility("default")]] int torch_of_old() { return 0; }
