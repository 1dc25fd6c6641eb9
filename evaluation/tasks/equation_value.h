// Arithmetic expressions, as in word problems and as models write them: their values and notation.
#ifndef BRAID_EVALUATION_TASKS_EQUATION_VALUE_H_
#define BRAID_EVALUATION_TASKS_EQUATION_VALUE_H_

#include <optional>
#include <string>
#include <string_view>

namespace braid {

// Returns the value of an expression of numbers, names, + - * / and parentheses, in infix notation
// with the usual precedence ("x = (number0 + 3) * 2") or in prefix notation, whose operators are
// followed by spaces ("* number0 -2"). A text that is valid in both is read in prefix notation: so
// "- 5 -3" is 8, while "- 5 + 3" is -2. A name stands for a fixed number of its own, so that
// expressions which are equal for all values of their names, and in practice no others, have equal
// values. Of an equation whose one side is a single name, the value is that of the other side.
// Nullopt for a text that is not an expression, has more than 4096 bytes or divides by zero.
std::optional<double> EquationValue(std::string_view text);

// Returns an expression in infix notation in prefix notation, its numbers and names as they are:
// "* - 8 3 2" for "(8 - 3) * 2", "- 0 x" for "-x". Nullopt as for EquationValue.
std::optional<std::string> PrefixNotation(std::string_view infix);

// Returns whether both texts have a value and these agree to 1e-6 of it, or of 1 if it is smaller.
bool SolvesEquation(std::string_view answer, std::string_view reference);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_EQUATION_VALUE_H_
