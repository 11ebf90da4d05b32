#pragma once

namespace fla {

/// Calls `end` once when the calling thread ends, after the destructors of its thread_local objects: those
/// may still call the library. What runs later may call it, too, and has it called again. On the main thread
/// it is never called, so that calls from atexit and from destructors of static objects find everything in
/// its place.
void at_thread_end(void (*end)());

}  // namespace fla
