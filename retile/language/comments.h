// The comments of a text, dealt out in order to the declarations and statements that they belong to.
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

  // The comments that begin before the position and were not taken yet.
  std::vector<Comment> take_before(std::size_t position);
  // The comments after `end` on its line, with nothing but space before them; joined.
  std::string take_beside(std::size_t end);
  // Whether a blank line stands before what begins here.
  bool after_blank(std::size_t position) const;

 private:
  std::string text_of(SourceRange range) const;

  std::string_view text_;
  std::vector<SourceRange> ranges_;
  std::size_t next_ = 0;
};

}  // namespace retile::language
