/// A library that a plugin needs.
__attribute__((visibility("default"))) int answer() { return 42; }
