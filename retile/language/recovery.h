// Where a parser goes on after a fault, found by looking at brackets and at how lines start.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace retile::language {

// Just behind the comment or the quoted name that starts here; `position` itself where none does. What is never closed
// ends with the text or the line.
std::size_t skip_comment(std::string_view text, std::size_t position);
std::size_t skip_quotes(std::string_view text, std::size_t position);

// After a statement that begins here: the next one of its block, the brace that ends the block, the next declaration,
// or the end of the text.
std::size_t skip_statement(std::string_view text, std::size_t begin);

// The next line after this position that starts with fn, type or mesh, or the end of the text.
std::size_t skip_declaration(std::string_view text, std::size_t begin);

// Behind the type that begins here; nothing where its brackets never close.
std::optional<std::size_t> skip_type(std::string_view text, std::size_t begin);

}  // namespace retile::language
