/* SPDX-License-Identifier: MIT
 *
 * storm_library.cpp where there is no C++: what sample/storm loads and unloads, without exceptions.
 */
void *storm_call(void *(*allocate)(void));

void *storm_call(void *(*allocate)(void)) {
    void *volatile block = allocate();
    return block;
}
