"""The language server `dsl server`: what editors ask about a `.tile` text while somebody writes it."""
