/* SPDX-License-Identifier: MIT
 *
 * stay.h: whoever closes a library with this allocator in it leaves the library where it is. The helper thread, the
 * destructor of the thread key and blocks in use outlive dlclose.
 */
#pragma once

/* Called when the library is loaded. */
void stay_loaded(void);
