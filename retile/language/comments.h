// The comments of a text, assigned in order to the declarations and statements that they belong to.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/language/syntax.h"

namespace retile::language {

class CommentList {
 public:
  // The text must outlive the list.
  explicit CommentList(std::string_view text);

  // Takes the comments that begin before the position and were not taken yet.
  std::vector<Comment> take_before(std::size_t position);
  // Takes the comments after `end` on its line, with only space before them, and joins them.
  std::string take_beside(std::size_t end);
  // Whether the line before this position is blank.
  bool after_blank(std::size_t position) const;

 private:
  std::string text_of(SourceRange range) const;

  std::string_view text_;
  std::vector<SourceRange> ranges_;
  std::size_t next_ = 0;
};

}  // namespace retile::language
