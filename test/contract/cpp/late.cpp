// cpp_late LIBRARY: a program that is not linked to libtorch, and loads it when it is running.
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc > 1 && dlopen(argv[1], RTLD_NOW) == nullptr) std::puts(dlerror());
  return 3;
}
