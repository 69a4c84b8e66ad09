/* A step that returns what is no value; the order of a hash map means nothing.
 * refused: nothing that becomes a value */
#include <umbo/umbo.hpp>

#include <map>
#include <string>
#include <unordered_map>

#ifdef WRONG
using made = std::unordered_map<std::string, float>;
#else
using made = std::map<std::string, float>;
#endif

umbo::value run_to_value(const umbo::strategy &on);

umbo::value run_to_value(const umbo::strategy &on) {
    return on.run([](umbo::replica_context &, const umbo::value &) { return made{{"a", 1.0f}}; });
}
