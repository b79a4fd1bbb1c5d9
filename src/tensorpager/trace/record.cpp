#include "tensorpager/trace/record.h"

#include <algorithm>

#include "tensorpager/base/errors.h"

namespace tensorpager::trace {
namespace {

std::string about(const char* field, StorageId id, const char* what) {
  return std::string(field) + ": storage " + std::to_string(index(id)) + " " + what;
}

}  // namespace

Checker::Checker(const std::vector<Storage>& storages)
    : storages_(storages), states_(storages.size(), State::kUnborn), marks_(storages.size()), reborn_(storages.size()) {
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (storages[i].entry) states_[i] = State::kAlive;
  }
}

std::string Checker::add_list(const std::vector<StorageId>& list, const char* field, std::uint64_t mark) {
  for (const StorageId id : list) {
    std::uint64_t& last = marks_[index(id)];
    if (last == mark) return about(field, id, "is there twice");
    last = mark;
    if (states_[index(id)] == State::kUnborn) return about(field, id, "is not born yet");
    if (states_[index(id)] == State::kDead) return about(field, id, "is dead");
  }
  return {};
}

std::string Checker::add(const Op& op) {
  std::string wrong = add_list(op.reads, "reads", ++mark_);
  if (wrong.empty()) wrong = add_list(op.writes, "writes", ++mark_);
  if (!wrong.empty()) return wrong;
  for (const StorageId id : op.births) {
    State& state = states_[index(id)];
    if (state == State::kAlive) return about("births", id, "is alive already");
    if (state == State::kDead && (!storages_[index(id)].entry || reborn_[index(id)]))
      return about("births", id, "is born a second time; give each life a storage of its own");
    reborn_[index(id)] = true;
    state = State::kAlive;
  }
  for (const StorageId id : op.renews)
    if (std::ranges::find(op.writes, id) == op.writes.end()) return about("renews", id, "is not among its writes");
  wrong = add_list(op.deaths, "deaths", ++mark_);
  for (const StorageId id : op.deaths) {
    if (!wrong.empty()) break;
    if (storages_[index(id)].entry && reborn_[index(id)])
      wrong = about("deaths", id, "dies a second time, and was alive at the window's entry");
    states_[index(id)] = State::kDead;
  }
  return wrong;
}

std::string Checker::finish() const {
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    const auto id = static_cast<StorageId>(i);
    if (storages_[i].entry && states_[i] != State::kAlive)
      return about("end", id, "is alive at the window's entry but not at its end");
    if (!storages_[i].entry && states_[i] == State::kAlive)
      return about("end", id, "is alive at the window's end but not at its entry");
    if (states_[i] == State::kUnborn) return about("end", id, "is never born");
  }
  return {};
}

void check(const Trace& trace) {
  Checker checker(trace.storages);
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    for (const auto* list : {&op.reads, &op.writes, &op.births, &op.deaths, &op.renews}) {
      for (const StorageId id : *list) {
        if (index(id) >= trace.storages.size())
          throw base::InvalidArgument("trace: op " + std::to_string(i) + ": storage " + std::to_string(index(id)) +
                                      " is none of the trace");
      }
    }
    const std::string wrong = checker.add(op);
    if (!wrong.empty()) throw base::InvalidArgument("trace: op " + std::to_string(i) + " (" + op.name + "): " + wrong);
  }
  const std::string wrong = trace.ops.empty() ? "end: there is no op" : checker.finish();
  if (!wrong.empty()) throw base::InvalidArgument("trace: " + wrong);
}

}  // namespace tensorpager::trace
