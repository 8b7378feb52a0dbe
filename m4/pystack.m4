# SPDX-License-Identifier: Apache-2.0

# PYSTACK_TRY_FLAGS(VARIABLE, FLAGS)
# Append to VARIABLE each of FLAGS that the C compiler takes without a warning.
AC_DEFUN([PYSTACK_TRY_FLAGS], [
  for pystack_flag in $2; do
    AC_MSG_CHECKING([whether $CC takes $pystack_flag])
    pystack_save=$CFLAGS
    CFLAGS="$CFLAGS -Werror $pystack_flag"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
      [AC_MSG_RESULT([yes]); $1="$$1 $pystack_flag"],
      [AC_MSG_RESULT([no])])
    CFLAGS=$pystack_save
  done
])

# PYSTACK_TRY_LDFLAGS(VARIABLE, FLAGS)
# The same for the linker.
AC_DEFUN([PYSTACK_TRY_LDFLAGS], [
  for pystack_flag in $2; do
    AC_MSG_CHECKING([whether the linker takes $pystack_flag])
    pystack_save=$LDFLAGS
    LDFLAGS="$LDFLAGS -Werror $pystack_flag"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
      [AC_MSG_RESULT([yes]); $1="$$1 $pystack_flag"],
      [AC_MSG_RESULT([no])])
    LDFLAGS=$pystack_save
  done
])
