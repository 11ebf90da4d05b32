"""What kda_prepare tells kda_state of a chunk besides its operators: gamma [K], then of each of its 64 tokens three numbers."""

from sequences import CHUNK

OF_VALUES, OF_KEYS, OF_OUTPUT = 0, CHUNK, 2 * CHUNK  # w, p and f, from gamma's end on
THREADS = 128  # that copy them


def vector_width(K):
    """As many for every thread that copies them."""
    return (K + 3 * CHUNK + THREADS - 1) // THREADS * THREADS
