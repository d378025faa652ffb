#include "tokenizer/sentencepiece.h"

#include <sentencepiece_processor.h>

#include "kernels/base/cxx_memory.h"

#include <exception>
#include <memory>
#include <string>
#include <vector>

struct SentencePiece {
    sentencepiece::SentencePieceProcessor processor;
};

namespace {

// Runs `work`, which returns a Status; whatever it throws becomes an Error.
template <typename Work> Status guarded(Error *error, Work work) noexcept {
    try {
        return work();
    } catch (const std::bad_alloc &) {
        return error_set(error, STATUS_MEMORY, "no memory in the sentencepiece library");
    } catch (const std::exception &e) {
        return error_set(error, STATUS_FILE, "the sentencepiece library failed: %s", e.what());
    } catch (...) {
        return error_set(error, STATUS_FILE, "the sentencepiece library failed");
    }
}

// The library's message in one line.
std::string one_line(const sentencepiece::util::Status &status) {
    std::string text = status.error_message();
    for (char &c : text) {
        if (c == '\n' || c == '\r') c = ' ';
    }
    return text;
}

} // namespace

Status sentencepiece_open(const void *proto, size_t size, SentencePiece **out, Error *error) {
    *out = nullptr;
    // Pieces, their table and trie: some 20 bytes for each of the model's.
    if (!cxx_memory_has(1 << 20, 64, size))
        return error_set(error, STATUS_MEMORY, "no memory for a SentencePiece model of %zu bytes", size);
    return guarded(error, [&]() -> Status {
        auto model = std::make_unique<SentencePiece>();
        auto status = model->processor.LoadFromSerializedProto({static_cast<const char *>(proto), size});
        if (!status.ok()) {
            return error_set(error, STATUS_FILE, "not a usable SentencePiece model: %s",
                             one_line(status).c_str());
        }
        *out = model.release();
        return STATUS_OK;
    });
}

void sentencepiece_close(SentencePiece *model) {
    delete model;
}

int64_t sentencepiece_size(const SentencePiece *model) {
    return model->processor.GetPieceSize();
}

Status sentencepiece_encode(const SentencePiece *model, const char *text, size_t size, Tokens *tokens,
                            Error *error) {
    if (size > size_t{1} << 30)
        return error_set(error, STATUS_MEMORY, "a text of %zu bytes is too long", size);
    // Symbols, pairs and pieces; bytes that are no UTF-8 become U+FFFD, three bytes that fall into as many tokens.
    if (!cxx_memory_has(1 << 16, 1024, size))
        return error_set(error, STATUS_MEMORY, "no memory to split a text of %zu bytes", size);
    return guarded(error, [&]() -> Status {
        static_assert(sizeof(int) == sizeof(int32_t), "ids are passed on as they are");
        std::vector<int> ids;
        auto status = model->processor.Encode({text, size}, &ids);
        if (!status.ok()) {
            return error_set(error, STATUS_FILE, "sentencepiece cannot encode the text: %s",
                             one_line(status).c_str());
        }
        return tokens_append(tokens, ids.data(), static_cast<int64_t>(ids.size()), error);
    });
}
