#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

namespace fla {

/// Values by key, of which those that were used last are kept; not installed. `hash_of(key)` and `==` tell
/// keys apart.
template <class Key, class Value>
class Recent {
 public:
  explicit Recent(std::size_t most) : most_(most) {}

  /// Null when there is none.
  const Value* find(const Key& key) {
    const auto place = place_of(key);
    if (place == by_hash_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, place->second);
    return &place->second->value;
  }

  /// Adds one that is not there, and hands `drop` the value that has to go.
  template <class Drop>
  void add(Key key, Value value, Drop&& drop) {
    const std::size_t hash = hash_of(key);
    entries_.push_front({std::move(key), std::move(value)});
    by_hash_.emplace(hash, entries_.begin());
    if (entries_.size() <= most_) return;
    by_hash_.erase(place_of(entries_.back().key));
    drop(std::move(entries_.back().value));
    entries_.pop_back();
  }

  /// Hands `drop` every value whose key is to go.
  template <class Goes, class Drop>
  void remove_if(Goes&& goes, Drop&& drop) {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      if (!goes(entry->key)) {
        ++entry;
        continue;
      }
      by_hash_.erase(place_of(entry->key));
      drop(std::move(entry->value));
      entry = entries_.erase(entry);
    }
  }

 private:
  struct Entry {
    Key key;
    Value value;
  };

  auto place_of(const Key& key) {
    auto [place, end] = by_hash_.equal_range(hash_of(key));
    while (place != end && !(place->second->key == key)) ++place;
    return place != end ? place : by_hash_.end();
  }

  std::size_t most_;
  std::list<Entry> entries_;  // the one that was used last first
  std::unordered_multimap<std::size_t, typename std::list<Entry>::iterator> by_hash_;
};

/// Of a hash and one more value.
template <class Type>
std::size_t mixed(std::size_t hash, const Type& value) {
  return hash ^ (std::hash<Type>()(value) + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2));
}

}  // namespace fla
