// Has in it what a program has that libtorch is linked into: its size, and one text of its.
asm(R"(
  .section .rodata
  .ascii "TESTING_ONLY_GenericMode"
  .zero 17 << 20
  .text
)");

int main() { return 4; }
