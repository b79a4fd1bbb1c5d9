# The fake CUDA card. Its core needs neither torch nor CUDA's headers, so the sanitizers see it.
tensorpager_module(fake_cuda
  SOURCES at_once_schedule.cpp card.cpp device_memory.cpp failure_injection.cpp kernels.cpp late_schedule.cpp memory_book.cpp pinned_memory.cpp process_world.cpp queues.cpp race_checker.cpp report.cpp schedule.cpp
    seeded_schedule.cpp shadow.cpp speeds.cpp streams.cpp task_queues.cpp thread_schedule.cpp world.cpp
  USES base)
