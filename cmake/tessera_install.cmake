# cmake --install and find_package(Tessera).
