// Only here to carry the precompiled header of all test programs.
