/* SPDX-License-Identifier: MIT
 *
 * A library whose symbols are looked up: a function, data, and what is not to be found.
 */
int symbols_data = 7;
_Thread_local int symbols_of_a_thread = 1;
extern int symbols_absent __attribute__((weak));

__attribute__((visibility("hidden"))) int symbols_hidden(void) { return 2; }

int symbols_function(void) { return &symbols_absent == 0 ? symbols_hidden() + symbols_of_a_thread : 0; }
