// cpp_programs NAME [STEPS [DEVICE]]
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "programs.h"

int main(int argc, char** argv) {
  using namespace programs;
  const std::map<std::string, std::function<void(int, torch::Device)>> all{
      {"resnet", &resnet},
      {"lstm", &lstm},
      {"transformer", &transformer},
      {"threads", [](int steps, torch::Device) { threads(steps); }},
      {"raw_pointers", [](int steps, torch::Device) { raw_pointers(steps, nullptr); }},
  };
  const auto chosen = all.find(argc > 1 ? argv[1] : "");
  if (chosen == all.end()) {
    std::cerr << "usage: cpp_programs NAME [STEPS [DEVICE]], where NAME is one of:";
    for (const auto& [name, program] : all) std::cerr << ' ' << name;
    std::cerr << '\n';
    return 2;
  }
  torch::set_num_threads(1);
  chosen->second(argc > 2 ? std::atoi(argv[2]) : 4, torch::Device(argc > 3 ? argv[3] : "cpu"));
  return 0;
}
