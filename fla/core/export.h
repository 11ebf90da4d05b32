#pragma once

/// Marks what libfla exports; everything else in the library is hidden.
#define FLA_API __attribute__((visibility("default")))
