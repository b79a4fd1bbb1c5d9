#include <cstdio>

#include "tensorpager/fake_cuda/world.h"

namespace tensorpager::fake_cuda {
namespace {

/// Writes one flat JSON object.
class JsonObject {
 public:
  void add(const char* key, const std::string& text) {
    begin(key);
    text_ += '"';
    for (const char c : text) append_escaped(c);
    text_ += '"';
  }
  void add(const char* key, std::uint64_t number) {
    begin(key);
    text_ += std::to_string(number);
  }
  std::string finish() { return "{" + text_ + "}"; }

 private:
  void begin(const char* key) {
    if (!text_.empty()) text_ += ", ";
    text_ += '"' + std::string(key) + "\": ";
  }
  void append_escaped(char c) {
    if (c == '"' || c == '\\') {
      text_ += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      text_ += escaped;
    } else {
      text_ += c;
    }
  }

  std::string text_;
};

}  // namespace

std::string World::report() {
  const Queues::Counts counts = queues_->counts();
  std::uint64_t used = 0;
  for (const auto& memory : memories_) used += memory->used();
  JsonObject object;
  object.add("card", card_.name);
  object.add("devices", static_cast<std::uint64_t>(card_.devices));
  object.add("schedule", queues_->schedule_name());
  object.add("kernels", counts.kernels);
  object.add("stream_waits", counts.stream_waits);
  object.add("host_waits", counts.host_waits);
  object.add("races", races_ ? races_->races() : 0);
  object.add("first_race", races_ ? races_->first_race() : "");
  object.add("launches_refused", launches_refused_.load());
  object.add("largest_queue", static_cast<std::uint64_t>(counts.largest_queue));
  object.add("used_bytes", used);
  object.add("card_microseconds", static_cast<std::uint64_t>(queues_->card_seconds() * 1e6));
  return object.finish();
}

}  // namespace tensorpager::fake_cuda
