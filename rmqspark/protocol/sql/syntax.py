"""The grammar of RocketMQ's SQL92 (its SelectorParser.jj; spec: semantics, section 9): text to tree.

The parser takes what it can and stops at the first token that does not go on with a whole expression: RocketMQ ignores
the rest too, and so do brokers. Whoever has just typed it is told (`whole`). The parser keeps its own stack, so that no
depth of brackets is a depth of calls.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from lark import Lark, Token, UnexpectedCharacters, UnexpectedToken

from rmqspark.protocol.sql.building import Builder, shown, wrong_at

if TYPE_CHECKING:
    from rmqspark.errors import InvalidFilter
    from rmqspark.protocol.sql.tree import Node

_GRAMMAR: Final = r"""
    start: disjunction                                          -> condition

    ?disjunction: conjunction
                | conjunction ("OR"i conjunction)+              -> any_of
    ?conjunction: equality
                | equality ("AND"i equality)+                   -> all_of
    ?equality: comparison
             | equality "=" comparison                          -> equal
             | equality "<>" comparison                         -> not_equal
             | equality "IS"i "NULL"i                           -> is_null
             | equality "IS"i "NOT"i "NULL"i                    -> is_not_null
    ?comparison: unary
               | comparison ORDER unary                         -> ordered
               | comparison "BETWEEN"i unary "AND"i unary       -> between
               | comparison "NOT"i "BETWEEN"i unary "AND"i unary -> not_between
               | comparison "IN"i texts                         -> in_texts
               | comparison "NOT"i "IN"i texts                  -> not_in_texts
               | comparison search STRING                       -> searched
               | comparison "NOT"i search STRING                -> not_searched
    ?unary: primary
          | "+" unary
          | "-" unary                                           -> negative
          | "NOT"i unary                                        -> negation
    ?primary: STRING                                            -> text
            | INTEGER                                           -> whole
            | FLOAT                                             -> fraction
            | TRUE                                              -> truth
            | FALSE                                             -> falsehood
            | NULL                                              -> null
            | NAME                                              -> variable
            | "(" disjunction ")"

    texts: "(" STRING ("," STRING)* ")"
    !search: "CONTAINS"i | "STARTSWITH"i | "ENDSWITH"i

    TRUE: "TRUE"i
    FALSE: "FALSE"i
    NULL: "NULL"i
    ORDER: />=?|<=|<(?!>)/
    STRING: /'(?:''|[^'])*'/
    FLOAT.1: /[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+/
    INTEGER: /0|[1-9][0-9]*[lL]?/
    NAME: /(?a:[a-z_$][a-z0-9_$]*)/i

    SPACE: /[ \t\n\r\f]+/
    LINE_COMMENT.1: /--[^\n\r]*+[\n\r]/
    BLOCK_COMMENT.1: /\/\*[^*]*\*+(?:[^*\/][^*]*\*+)*\//
    %ignore SPACE
    %ignore LINE_COMMENT
    %ignore BLOCK_COMMENT
"""


MAX_DEPTH: Final = 64
_MOST_PENDING: Final = 4 * MAX_DEPTH
"""What the parser may keep on its stack: a level of brackets takes up to four places, with what stands before each."""


def too_deep(at: int) -> InvalidFilter:
    """The error for an expression nested deeper than MAX_DEPTH."""
    story = f"the expression is nested more than {MAX_DEPTH} deep"
    return wrong_at(at, story, "Join conditions with AND and OR, which nest nothing.")


_LIKE: Final = "There are CONTAINS, STARTSWITH and ENDSWITH: TAGS STARTSWITH 'p'"
_INSTEAD: Final = {
    "LIKE": _LIKE,
    "RLIKE": _LIKE,
    "ILIKE": _LIKE,
    "REGEXP": _LIKE,
    "+": "There is no arithmetic.",
    "-": "There is no arithmetic.",
    "(": "There are no functions.",
    ")": "No bracket is open there.",
}


def parse(text: str, *, whole: bool = False) -> Node:
    """The tree of an expression. Raises InvalidFilter, which says at which character it goes wrong; with `whole` also
    where the expression is over before the text is."""
    under_way = _parser().parse_interactive(text)
    stopped_at: Token | None = None
    try:
        for token in under_way.iter_parse():
            if len(under_way.parser_state.state_stack) > _MOST_PENDING:
                raise too_deep(token.start_pos or 0)
    except UnexpectedToken as error:
        stopped_at = error.token
    except UnexpectedCharacters as error:
        raise wrong_at(error.pos_in_stream or 0, f"{error.char!r} begins nothing that SQL92 knows") from None
    try:
        tree = cast("Node", under_way.feed_token(Token("$END", "")))
    except UnexpectedToken:
        if stopped_at is None:
            raise wrong_at(len(text), "the expression ends too early") from None
        raise wrong_at(stopped_at.start_pos or 0, f"{shown(stopped_at)} cannot stand here") from None
    if whole and stopped_at is not None:
        hint = _INSTEAD.get(stopped_at.upper(), "There are conditions alone, joined by AND and OR.")
        raise wrong_at(stopped_at.start_pos or 0, f"{shown(stopped_at)} is not understood here", hint)
    return tree


@lru_cache(maxsize=1)
def _parser() -> Lark:
    """Made when the first expression is read: it takes longer than most programs that never filter need to start."""
    return Lark(_GRAMMAR, parser="lalr", lexer="basic", transformer=Builder())
