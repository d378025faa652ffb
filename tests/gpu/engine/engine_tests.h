// What the whole engine does on the GPU: logits, text, memory, faults. The plug-in is the one beside the program.
#ifndef PALAVER_TESTS_GPU_ENGINE_TESTS_H
#define PALAVER_TESTS_GPU_ENGINE_TESTS_H

#include "tests/gpu/sample/sampling.h"

// Logits of the golden models below folder `root` against Hugging Face transformers in float32: within 1e-4 in float32,
// in 16 bits within what transformers' own 16 bits differ by.
void test_golden_logits(const char *root, Report *report);

// The same on a device: every `every`-th model of those that it can take.
void test_golden_on(const char *root, const char *device, int every, Report *report);

// Caches of layers whose heads differ; models below folder `root`.
void test_layer_heads(const char *root, Report *report);

// 256 greedy tokens of the model at `path`: every one the plain loops' own, or a tie within rounding, shown.
void test_greedy_text(const char *path, Report *report);

// The same over several cards: every token that of one, or a tie within the rounding of 16 bits, shown.
void test_text_on_cards(const char *path, const char *one, const char *several, Report *report);

// What is too large is refused with figures and harms nobody; what is planned is what is taken.
void test_memory(const Ops *cuda, const char *root, Report *report);

// Steps that begin before their token is known show in nothing; models below folder `root`.
void test_steps_ahead(const char *root, Report *report);

// Tokens that are guessed, right or wrong, leave what reading the same text leaves; models below folder `root`.
void test_drafts(const char *root, Report *report);

// What comes back from a snapshot's file is what was there; models below folder `root`.
void test_snapshots(const char *root, Report *report);
void snapshot_speed(void); // how fast, as lines on stdout

// A model on the card and the CPU: logits at every border, a talk past the context, snapshots, rows. Models below folder
// `root`.
void test_splits(const char *root, Report *report);
// Models larger than a card that PALAVER_CUDA_LIMITS makes small. What other processes take of the card counts as taken
// by this one: they have to be none.
void test_small_cards(Report *report);

// After a fault on the device every op says STATUS_FATAL with its name and the cause. In a process of its own:
// test_fault() starts this program again, with a last argument that leads to fault_child().
void test_fault(const char *plugin, Report *report);
int fault_child(const Ops *cuda);

#endif
