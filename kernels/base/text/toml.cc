// toml++ parses; its tree is copied into the plain one of toml.h, and its exceptions become errors.
#include "kernels/base/text/toml.h"

// toml++ 3.3 asserts where it should report (`[=]`, `[[[`). A failed assertion ends the parse, not the
// program.
#include <stdexcept>
namespace {
[[noreturn]] void assertion_failed(const char *expression) {
    throw std::logic_error(expression);
}
} // namespace
#undef NDEBUG
#define TOML_ASSERT(expression) ((expression) ? (void)0 : assertion_failed(#expression))
#include <toml++/toml.h>

#include "kernels/base/file.h"
#include "kernels/base/cxx_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace {

// toml++ limits the nesting of arrays and inline tables, but not that of dotted keys, and its destructors
// recurse: a long enough `a.a.a.…` would overflow the stack.
constexpr size_t max_dots = 64;

struct NodeDeleter {
    void operator()(TomlNode *node) const { toml_free(node); }
};
using NodePointer = std::unique_ptr<TomlNode, NodeDeleter>;

class BadKey : public std::exception {};

void release(TomlNode &node) {
    for (size_t i = 0; i < node.n_children; i++) release(node.children[i]);
    std::free(node.children);
    std::free(node.key);
    std::free(node.string);
}

char *copy_bytes(std::string_view bytes) {
    char *copy = static_cast<char *>(std::malloc(bytes.size() + 1));
    if (!copy) throw std::bad_alloc();
    std::memcpy(copy, bytes.data(), bytes.size());
    copy[bytes.size()] = 0;
    return copy;
}

void reserve_children(TomlNode &node, size_t count) {
    node.children = static_cast<TomlNode *>(std::calloc(count ? count : 1, sizeof(TomlNode)));
    if (!node.children) throw std::bad_alloc();
}

// Fills a zeroed node. What was filled before an exception is released by the owner of the root.
void fill(TomlNode &node, const toml::node &value) {
    if (!node.key) {
        node.line = value.source().begin.line;
        node.column = value.source().begin.column;
    }
    if (const toml::table *table = value.as_table()) {
        node.type = TOML_TABLE;
        reserve_children(node, table->size());
        for (auto &&[key, child] : *table) {
            if (key.str().find('\0') != std::string_view::npos) throw BadKey();
            TomlNode &next = node.children[node.n_children++];
            next.key = copy_bytes(key.str());
            next.line = key.source().begin.line;
            next.column = key.source().begin.column;
            fill(next, child);
        }
        std::stable_sort(node.children, node.children + node.n_children,
                         [](const TomlNode &a, const TomlNode &b) {
                             return a.line != b.line ? a.line < b.line : a.column < b.column;
                         });
    } else if (const toml::array *array = value.as_array()) {
        node.type = TOML_ARRAY;
        reserve_children(node, array->size());
        for (const toml::node &child : *array) fill(node.children[node.n_children++], child);
    } else if (const auto *string = value.as_string()) {
        node.type = TOML_STRING;
        node.string = copy_bytes(string->get());
        node.length = string->get().size();
    } else if (const auto *integer = value.as_integer()) {
        node.type = TOML_INTEGER;
        node.integer = integer->get();
        node.number = static_cast<double>(integer->get());
    } else if (const auto *number = value.as_floating_point()) {
        node.type = TOML_FLOAT;
        node.number = number->get();
    } else if (const auto *boolean = value.as_boolean()) {
        node.type = TOML_BOOLEAN;
        node.boolean = boolean->get();
    } else {
        node.type = TOML_DATE;
    }
}

// The position after the string that begins with the quote at `i`. Quotes are followed only as far as
// well-formed text needs it: the parser refuses the rest.
size_t skip_string(std::string_view text, size_t i) {
    char quote = text[i];
    bool block = text.compare(i, 3, std::string(3, quote)) == 0;
    size_t quotes = block ? 3 : 1;
    for (i += quotes; i < text.size(); i++) {
        if (text[i] == '\n' && !block) return i;
        if (text[i] == '\\' && quote == '"')
            i++;
        else if (text[i] == quote && (!block || text.compare(i, 3, std::string(3, quote)) == 0))
            break;
    }
    i = std::min(i + quotes, text.size());
    for (int extra = 0; block && extra < 2 && i < text.size() && text[i] == quote; extra++) i++; // """a"""""
    return i;
}

Status error_at(const char *name, std::string_view text, size_t at, const char *what, Error *error) {
    size_t line_start = text.substr(0, at).rfind('\n');
    line_start = line_start == std::string_view::npos ? 0 : line_start + 1;
    auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(line_start), '\n');
    return error_set(error, STATUS_FILE, "%s:%zu:%zu: not valid TOML: %s", name,
                     static_cast<size_t>(lines) + 1, at - line_start + 1, what);
}

// How many parts the keys have within which a place of the text stands: those of tables and arrays that are open there
// count, too.
class KeyParts {
    size_t here_ = 0;
    std::vector<size_t> outside_; // of each bracket that is open

  public:
    size_t count() const { return here_; }
    void step(char c) {
        if (c == '.') here_++; // also in numbers, up to their end
        if (c == '{' || c == '[') outside_.push_back(here_);
        if (c == ',' || c == '\n') here_ = outside_.empty() ? 0 : outside_.back();
        if ((c == '}' || c == ']') && !outside_.empty()) {
            here_ = outside_.back();
            outside_.pop_back();
        }
    }
};

// What toml++ 3.3 does not survive, outside strings and comments: keys with very many parts, and characters
// beyond ASCII (its search for exotic white space runs into a __builtin_unreachable).
Status check_text(const char *name, std::string_view text, Error *error) {
    KeyParts parts;
    if (text.substr(0, 2) == "\xFF\xFE" || text.substr(0, 2) == "\xFE\xFF")
        return error_set(error, STATUS_FILE, "%s: this is UTF-16: save it as UTF-8", name);
    for (size_t i = text.substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0; i < text.size();) {
        char c = text[i];
        if (c == '"' || c == '\'') {
            i = skip_string(text, i);
            continue;
        }
        if (c == '#') {
            i = std::min(text.find('\n', i), text.size());
            continue;
        }
        parts.step(c);
        if (parts.count() > max_dots)
            return error_at(name, text, i, "a key with more than 64 parts; write fewer dots", error);
        if (static_cast<unsigned char>(c) >= 128)
            return error_at(name, text, i, "a character that needs quotes around it", error);
        i++;
    }
    return STATUS_OK;
}

bool asserts(std::string_view text) {
    try {
        (void)toml::parse(text);
    } catch (const std::logic_error &) {
        return true;
    } catch (const std::exception &) {
    }
    return false;
}

// A failed assertion has no place. It fails in every beginning of the text that holds the offending character
// and in no shorter one, so that character is found by halving.
Status assertion_error(const char *name, std::string_view text, Error *error) {
    size_t good = 0, bad = text.size();
    while (bad - good > 1) {
        size_t middle = good + (bad - good) / 2;
        (asserts(text.substr(0, middle)) ? bad : good) = middle;
    }
    return error_at(name, text, good, "a key cannot begin with this character", error);
}

Status parse(const char *name, std::string_view text, TomlNode **root, Error *error) {
    if (Status status = check_text(name, text, error)) return status;
    try {
        toml::table table = toml::parse(text, std::string_view(name));
        NodePointer node(static_cast<TomlNode *>(std::calloc(1, sizeof(TomlNode))));
        if (!node) throw std::bad_alloc();
        fill(*node, table);
        *root = node.release();
        return STATUS_OK;
    } catch (const toml::parse_error &failure) {
        // toml++ speaks of its own parsing first ("Error while parsing key: "); the line and column say
        // where.
        std::string what(failure.description());
        for (char &c : what)
            if (static_cast<unsigned char>(c) < ' ') c = ' ';
        return error_set(error, STATUS_FILE, "%s:%u:%u: not valid TOML: %s", name,
                         static_cast<unsigned>(failure.source().begin.line),
                         static_cast<unsigned>(failure.source().begin.column), what.c_str());
    } catch (const std::logic_error &) {
        return assertion_error(name, text, error);
    } catch (const BadKey &) {
        return error_set(error, STATUS_FILE, "%s: a key holds a NUL character; remove it", name);
    }
}

Status read_file(const char *path, std::string &text, Error *error) {
    int fd;
    int64_t size;
    Status status = file_open_regular(path, &fd, &size, nullptr, error);
    if (status) return status;
    std::unique_ptr<FILE, int (*)(FILE *)> file(fdopen(fd, "rb"), std::fclose);
    if (!file) {
        close(fd);
        throw std::bad_alloc();
    }
    char buffer[4096];
    size_t n;
    while ((n = std::fread(buffer, 1, sizeof buffer, file.get())) > 0) {
        text.append(buffer, n);
        if (text.size() > TOML_MAX_BYTES) break; // refused by toml_parse
    }
    if (std::ferror(file.get()))
        return error_set(error, STATUS_FILE, "%s: cannot be read: %s", path, std::strerror(errno));
    return STATUS_OK;
}

} // namespace

extern "C" Status toml_parse(const char *name, const char *text, size_t length, TomlNode **root,
                             Error *error) {
    *root = nullptr;
    if (length > TOML_MAX_BYTES)
        return error_set(error, STATUS_FILE, "%s: larger than %d bytes; this cannot be a settings file", name,
                         static_cast<int>(TOML_MAX_BYTES));
    // Dotted keys take most: some 120 bytes for each of theirs.
    if (!cxx_memory_has(1 << 16, 256, length))
        return error_set(error, STATUS_MEMORY, "%s: not enough memory to read it", name);
    try {
        return parse(name, std::string_view(text, length), root, error);
    } catch (const std::bad_alloc &) {
        return error_set(error, STATUS_MEMORY, "%s: not enough memory to read it", name);
    } catch (const std::exception &failure) {
        return error_set(error, STATUS_FILE, "%s: not valid TOML: %s", name, failure.what());
    } catch (...) {
        return error_set(error, STATUS_FILE, "%s: not valid TOML", name);
    }
}

extern "C" Status toml_parse_file(const char *path, TomlNode **root, Error *error) {
    *root = nullptr;
    try {
        std::string text;
        Status status = read_file(path, text, error);
        return status ? status : toml_parse(path, text.data(), text.size(), root, error);
    } catch (const std::exception &) {
        return error_set(error, STATUS_MEMORY, "%s: not enough memory to read it", path);
    }
}

extern "C" void toml_free(TomlNode *root) {
    if (!root) return;
    release(*root);
    std::free(root);
}

extern "C" const TomlNode *toml_child(const TomlNode *table, const char *key) {
    for (size_t i = 0; i < table->n_children; i++)
        if (table->children[i].key && !std::strcmp(table->children[i].key, key)) return &table->children[i];
    return nullptr;
}

extern "C" const char *toml_type_name(TomlType type) {
    static const char *const names[] = {"a table",  "a list",        "a string",        "a whole number",
                                        "a number", "true or false", "a date or a time"};
    return names[type];
}
