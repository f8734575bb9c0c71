#include "retile/language/comments.h"

#include <algorithm>

#include "retile/language/recovery.h"

namespace retile::language {
namespace {

constexpr std::string_view space = " \t\r\n";

}  // namespace

CommentList::CommentList(std::string_view text) : text_(text) {
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t comment_end = skip_comment(text, position);
    if (comment_end > position) ranges_.push_back({position, comment_end});
    position = std::max({position + 1, comment_end, skip_quotes(text, position)});
  }
}

std::string CommentList::text_of(SourceRange range) const {
  const std::string_view text = text_.substr(range.begin, range.end - range.begin);
  return std::string(text.substr(0, text.find_last_not_of(space) + 1));
}

std::vector<Comment> CommentList::take_before(std::size_t position) {
  std::vector<Comment> taken;
  for (; next_ < ranges_.size() && ranges_[next_].begin < position; ++next_) {
    taken.push_back({text_of(ranges_[next_]), after_blank(ranges_[next_].begin)});
  }
  return taken;
}

std::string CommentList::take_beside(std::size_t end) {
  std::string taken;
  for (; next_ < ranges_.size(); ++next_) {
    const SourceRange range = ranges_[next_];
    const std::string_view between = text_.substr(end, range.begin - end);
    if (between.find_first_not_of(" \t\r") != std::string_view::npos) break;
    taken += (taken.empty() ? "" : " ") + text_of(range);
    end = range.end;
  }
  return taken;
}

bool CommentList::after_blank(std::size_t position) const {
  const std::string_view before = text_.substr(0, position);
  const std::string_view gap = before.substr(before.find_last_not_of(space) + 1);
  return std::count(gap.begin(), gap.end(), '\n') > 1;
}

}  // namespace retile::language
