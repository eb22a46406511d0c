// Exceptions through several frames.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

static int cleaned;

struct Guard {
    ~Guard() { cleaned++; }
};

static void fails(int n)
{
    Guard guard;
    if (n == 2)
        throw std::runtime_error("two is too many");
}

static int tries(int n)
{
    try {
        fails(n);
        return 0;
    } catch (const std::runtime_error &error) {
        return static_cast<int>(std::string(error.what()).size());
    }
}

int main()
{
    std::vector<int> results;
    for (int n = 0; n < 3; n++)
        results.push_back(tries(n));
    std::printf("%d %d\n", results[2], cleaned);
}
