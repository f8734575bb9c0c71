// Recovery: where a parser continues after a fault, found by brackets and the starts of lines.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace retile::language {

// The end of the comment or the quoted name that starts here; `position` itself where none does. If it is never closed,
// it ends with the text or the line.
std::size_t skip_comment(std::string_view text, std::size_t position);
std::size_t skip_quotes(std::string_view text, std::size_t position);

// The place after a statement that begins here: the next statement of its block, the brace that ends the block, the
// next declaration, or the end of the text.
std::size_t skip_statement(std::string_view text, std::size_t begin);

// The next line after this position that starts with fn, type or mesh, or the end of the text.
std::size_t skip_declaration(std::string_view text, std::size_t begin);

// The end of the type that begins here; nothing where its brackets never close.
std::optional<std::size_t> skip_type(std::string_view text, std::size_t begin);

}  // namespace retile::language
