// An exception behind the end of a library that has nothing to do with exceptions.
#include <cstdio>
#include <dlfcn.h>
#include <stdexcept>

int main()
{
    void *library = dlopen("libresolv.so.2", RTLD_NOW);
    if (!library || dlclose(library) != 0)
        return 1;
    try {
        throw std::runtime_error("thrown");
    } catch (const std::runtime_error &error) {
        std::puts(error.what());
    }
}
