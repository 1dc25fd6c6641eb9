#include "cli/programs.h"

int main(int argc, char** argv) { return braid::BraiddMain(argc, argv, BRAID_VERSION); }
