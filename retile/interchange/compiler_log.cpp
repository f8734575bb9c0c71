#include "retile/interchange/compiler_log.h"

#include <map>
#include <tuple>
#include <utility>

#include "retile/base/scanner.h"
#include "retile/interchange/readers.h"
#include "retile/types/text.h"

namespace retile::interchange {
namespace {

constexpr std::string_view opening = "nvoluntary full";
constexpr std::string_view from_name = "from";
constexpr std::string_view to_name = "to";

// Whether a place is in a comment: a line of retile's own output in the same stream.
bool is_in_comment(std::string_view text, std::size_t place) {
  return text.substr(text.rfind('\n', place) + 1).starts_with("//");
}

// The start of the next warning, which may have line breaks anywhere.
std::size_t find_warning(std::string_view text, std::size_t begin) {
  for (; (begin = text.find(opening, begin)) != std::string_view::npos; ++begin) {
    if (is_in_comment(text, begin)) continue;
    const std::size_t word = text.find_first_not_of(" \t\r\n", begin + opening.size());
    if (word != std::string_view::npos && text.substr(word).starts_with("rematerialization")) return begin;
  }
  return begin;
}

class WarningScanner {
 public:
  // Scans the log from `begin` to `end`, the start of the next warning.
  WarningScanner(const SourceText& log, std::size_t begin, std::size_t end)
      : log_(log), scanner_(log), begin_(begin), end_(end) {}

  ReportedReshard scan() {
    ReportedReshard reshard;
    go_behind("from sharding");
    reshard.from = scan_sharding(reshard.from_place);
    scanner_.expect_word("to", "between two shardings");
    reshard.to = scan_sharding(reshard.to_place);
    scan_operation(reshard);
    return reshard;
  }

 private:
  // Moves behind these words, which a line break may separate.
  void go_behind(std::string_view words) {
    const std::size_t space = words.find(' ');
    const std::string_view text = std::string_view(log_.text).substr(0, end_);
    for (std::size_t at = begin_; (at = text.find(words.substr(0, space), at)) != std::string_view::npos; ++at) {
      scanner_.go_to(at + space);
      if (scanner_.accept(words.substr(space + 1))) return;
    }
    scanner_.fail({begin_, end_of_line(begin_)}, "this warning names no shardings");
  }

  std::size_t end_of_line(std::size_t begin) const { return std::min(log_.text.find('\n', begin), end_); }

  std::string scan_sharding(SourceRange& place) {
    place.begin = scanner_.next_position();
    if (!scanner_.looking_at("{")) scanner_.expect("{", "at the start of a sharding");
    skip_brackets(scanner_);
    place.end = scanner_.next_position();
    while (place.end > place.begin && log_.text[place.end - 1] != '}') --place.end;
    return log_.text.substr(place.begin, place.end - place.begin);
  }

  // Scans [ … 'for' … '%' name '=' array ], on the same line or the two that follow.
  void scan_operation(ReportedReshard& reshard) {
    const std::string_view text = std::string_view(log_.text).substr(0, end_);
    std::size_t limit = reshard.to_place.end;
    for (int line = 0; line < 3 && limit < end_; ++line) limit = std::min(text.find('\n', limit), end_ - 1) + 1;
    const std::size_t sign = text.substr(0, limit).find('%', reshard.to_place.end);
    if (sign == std::string_view::npos) return;
    const std::size_t equal = text.substr(0, limit).find(" = ", sign);
    if (equal == std::string_view::npos) return;
    scanner_.go_to(equal + 3);
    if (!scanner_.looking_at_name()) return;  // a tuple
    reshard.operation = log_.text.substr(sign, equal - sign);
    reshard.array = scan_array(scanner_);
  }

  const SourceText& log_;
  Scanner scanner_;
  std::size_t begin_;
  std::size_t end_;
};

}  // namespace

bool has_warning(std::string_view text) { return find_warning(text, 0) != std::string_view::npos; }

CompilerLog read_compiler_log(const SourceText& log) {
  CompilerLog read;
  std::map<std::tuple<std::string, std::string, std::string, Shape>, std::size_t> seen;
  std::size_t begin = find_warning(log.text, 0);
  while (begin != std::string_view::npos) {
    const std::size_t next = find_warning(log.text, begin + opening.size());
    try {
      ReportedReshard reshard = WarningScanner(log, begin, std::min(next, log.text.size())).scan();
      const ArrayText array = reshard.array.value_or(ArrayText{});
      const auto [found, is_new] =
          seen.try_emplace({reshard.from, reshard.to, array.element_name, array.shape}, read.reshards.size());
      if (is_new) {
        read.reshards.push_back(std::move(reshard));
      } else {
        ++read.reshards[found->second].count;
      }
    } catch (const InputError& error) {
      read.faults.push_back(error.diagnostic());
    }
    begin = next;
  }
  return read;
}

LocalEnds parse_reshard(const SourceText& log, const ReportedReshard& reshard, const Shape& shape, bool is_local,
                        const std::optional<PlacedMesh>& mesh) {
  const SourceText from{std::string(from_name), reshard.from};
  const SourceText to{std::string(to_name), reshard.to};
  try {
    if (is_local) return parse_local_ends(from, to, shape, mesh);
    return {shape, parse_ends(from, to, shape, mesh)};
  } catch (const InputError& error) {
    const Diagnostic& fault = error.diagnostic();
    const SourceRange& text = fault.source_name == to_name ? reshard.to_place : reshard.from_place;
    const SourceRange place = fault.line == 0
                                  ? SourceRange{text.begin, text.end}
                                  : SourceRange{text.begin + fault.range.begin, text.begin + fault.range.end};
    throw InputError(diagnose(log, place, fault));
  }
}

}  // namespace retile::interchange
