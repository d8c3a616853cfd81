# From an R formula to the service's text. No part of it is evaluated. The service's own language
# takes what R's formulas hold; what it has no signs for is refused here, by name.

binding <- c("~" = 1, "|" = 1.5, "||" = 1.4, "+" = 2, "-" = 2, "*" = 3, "/" = 3, ":" = 4, "^" = 6)
unary <- 5

not_carried <- c(
  "%in%" = "a %in% b is written a:b",
  "$" = "columns are written without the name of a table",
  "[[" = "columns are written by their names alone",
  "[" = "columns are written by their names alone"
)
comparisons <- c("<", ">", "<=", ">=", "==", "!=", "!", "&", "&&")

# The formula as the service writes it: "income ~ age + C(sex)". A text is taken as it is.
formula_text <- function(formula) {
  if (is_text(formula)) {
    return(formula)
  }
  if (!inherits(formula, "formula")) {
    wrong("formula must be a formula, such as cured ~ dose + C(group), or its text")
  }
  sides <- vapply(as.list(formula)[-1], carried, "")
  paste(c(if (length(sides) == 2L) sides[1], "~", sides[length(sides)]), collapse = " ")
}

refuse_term <- function(expression, remedy) {
  term <- paste(deparse(expression, width.cutoff = 500L), collapse = " ")
  fail(paste0("the formula's ", term, " cannot be sent: ", remedy), "dpmcmcR_formula")
}

carried <- function(e) {
  if (is.symbol(e)) {
    return(name_text(as.character(e)))
  }
  if (is.null(e)) {
    return("None")
  }
  if (is.character(e)) {
    return(string_text(e))
  }
  if (is.logical(e) && !is.na(e)) {
    return(if (e) "True" else "False")
  }
  if (is.numeric(e) && is.finite(e)) {
    return(number_text(e))
  }
  if (is.call(e)) {
    return(carried_call(e))
  }
  refuse_term(e, "only columns, calls such as log(x) or C(g), numbers and texts may be in it")
}

carried_call <- function(e) {
  name <- called(e)
  arguments <- as.list(e)[-1]
  if (name %in% names(not_carried)) {
    refuse_term(e, not_carried[[name]])
  }
  if (name %in% comparisons) {
    refuse_term(e, "comparisons are not available: declare a column of categories")
  }
  if (name == "(" && length(arguments) == 1L) {
    return(paste0("(", carried(arguments[[1]]), ")"))
  }
  if (name %in% c("+", "-") && length(arguments) == 1L) {
    return(paste0(name, operand(arguments[[1]], unary)))
  }
  if (name %in% setdiff(names(binding), "~") && length(arguments) == 2L) {
    strength <- binding[[name]]
    more <- if (name == "^") c(0.5, 0) else c(0, 0.5) # a^b^c is a^(b^c), a - b - c is (a - b) - c
    left <- operand(arguments[[1]], strength + more[1])
    right <- operand(arguments[[2]], strength + more[2])
    return(paste0(left, if (strength > 3) name else paste0(" ", name, " "), right))
  }
  if (!grepl("^[A-Za-z][A-Za-z0-9._]*$", name) || name %in% c("function", "if", "for", "while")) {
    refuse_term(e, "it is no function that a formula of the service may hold")
  }
  values <- vapply(arguments, carried_value, "")
  options <- names(arguments) %||% rep("", length(arguments))
  paste0(name, "(", paste0(ifelse(nzchar(options), paste0(options, "="), ""), values,
                           collapse = ", "), ")")
}

# The name of the function that is called; bs of splines::bs.
called <- function(e) {
  head <- e[[1]]
  is_qualified <- is.call(head) && identical(head[[1]], quote(`::`))
  if (is_qualified && as.character(head[[2]]) %in% c("stats", "base", "splines", "survival")) {
    head <- head[[3]]
  }
  if (!is.symbol(head)) {
    refuse_term(e, "functions are written by their names alone")
  }
  as.character(head)
}

# A value of a call: T and F are constants here, and c(20, 40) is (20, 40).
carried_value <- function(e) {
  if (identical(e, quote(expr = ))) {
    wrong("an argument of a function in the formula is empty")
  }
  if (identical(e, quote(T)) || identical(e, quote(F))) {
    return(if (identical(e, quote(T))) "True" else "False")
  }
  if (is.call(e) && identical(e[[1]], quote(c))) {
    items <- vapply(as.list(e)[-1], carried, "")
    return(paste0("(", paste(items, collapse = ", "), if (length(items) == 1L) ",", ")"))
  }
  carried(e)
}

# An operand, in parentheses where it binds less: formulas that were built have none of their own.
operand <- function(e, strength) {
  text <- carried(e)
  if (!is.call(e) || !is.symbol(e[[1]])) {
    return(text)
  }
  name <- as.character(e[[1]])
  own <- if (!name %in% names(binding)) Inf else if (length(e) == 2L) unary else binding[[name]]
  if (own < strength) paste0("(", text, ")") else text
}

name_text <- function(name) {
  constant <- name %in% c("T", "F", "True", "TRUE", "False", "FALSE", "None", "NULL")
  if (name == "." || (grepl("^[A-Za-z][A-Za-z0-9._]*$", name) && !constant)) {
    return(name)
  }
  if (grepl("`", name, fixed = TRUE)) {
    refuse_term(as.symbol(name), "no column's name may have a backtick here")
  }
  paste0("`", enc2utf8(name), "`")
}

string_text <- function(text) {
  quote <- if (grepl("\"", text, fixed = TRUE)) "'" else "\""
  if (length(text) != 1L || grepl(quote, text, fixed = TRUE) ||
        grepl("[\\\\[:cntrl:]]", text)) {
    refuse_term(text, "a text may not hold both kinds of quotes, a backslash or a line end")
  }
  paste0(quote, enc2utf8(text), quote)
}

# The shortest text that reads as the same number.
number_text <- function(number) {
  for (digits in c(15L, 16L, 17L)) {
    text <- format(as.numeric(number), digits = digits, trim = TRUE)
    if (as.numeric(text) == number) {
      break
    }
  }
  text
}
