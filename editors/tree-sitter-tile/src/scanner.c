// Finds ends of lines and indentation. All three tokens are empty: the white space and the comments behind a line stay
// for the parser, so that comments are nodes. Inside brackets no token is valid, and newlines are white space.
#include "tree_sitter/parser.h"

#include <stdlib.h>
#include <string.h>

enum Token { NEWLINE, INDENT, DEDENT };

enum { MOST = TREE_SITTER_SERIALIZATION_BUFFER_SIZE / 2, TAB = 8 };

// The columns of the blocks around the place, the outermost first. Column 0 is not among them.
typedef struct {
  uint16_t columns[MOST];
  unsigned count;
} Blocks;

void *tree_sitter_tile_external_scanner_create(void) { return calloc(1, sizeof(Blocks)); }

void tree_sitter_tile_external_scanner_destroy(void *blocks) { free(blocks); }

unsigned tree_sitter_tile_external_scanner_serialize(void *payload, char *buffer) {
  Blocks *blocks = payload;
  unsigned bytes = blocks->count * sizeof(uint16_t);
  memcpy(buffer, blocks->columns, bytes);
  return bytes;
}

void tree_sitter_tile_external_scanner_deserialize(void *payload, const char *buffer, unsigned bytes) {
  Blocks *blocks = payload;
  blocks->count = bytes / sizeof(uint16_t);
  if (bytes > 0) memcpy(blocks->columns, buffer, bytes);
}

// Goes to the next word. Returns whether a line ends before it. `column` becomes the column of the word.
static bool next_word(TSLexer *lexer, unsigned *column) {
  bool ends = false;
  *column = 0;
  for (;;) {
    switch (lexer->lookahead) {
      case '\n':
        ends = true;
        *column = 0;
        break;
      case '\r':
        break;
      case ' ':
        *column += 1;
        break;
      case '\t':
        *column += TAB - *column % TAB;
        break;
      case '#':
        while (lexer->lookahead != '\n' && !lexer->eof(lexer)) lexer->advance(lexer, true);
        continue;
      default:
        if (!lexer->eof(lexer)) return ends;
        *column = 0;
        return true;
    }
    lexer->advance(lexer, true);
  }
}

bool tree_sitter_tile_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
  Blocks *blocks = payload;
  unsigned column, around = blocks->count > 0 ? blocks->columns[blocks->count - 1] : 0;
  if (!valid[NEWLINE] && !valid[INDENT] && !valid[DEDENT]) return false;
  lexer->mark_end(lexer);
  if (!next_word(lexer, &column)) return false;
  if (valid[NEWLINE]) {
    lexer->result_symbol = NEWLINE;
    return true;
  }
  if (valid[INDENT] && column > around && column <= UINT16_MAX && blocks->count < MOST) {
    blocks->columns[blocks->count++] = (uint16_t)column;
    lexer->result_symbol = INDENT;
    return true;
  }
  if (valid[DEDENT] && column < around) {
    blocks->count--;
    lexer->result_symbol = DEDENT;
    return true;
  }
  return false;
}
