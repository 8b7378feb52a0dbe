/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

static const char replacement[] = "\xef\xbf\xbd";

/* Length of the sequence a lead byte announces; 0 for what is no lead byte. */
static size_t sequence_length(unsigned char lead)
{
	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead < 0xe0)
		return 2;
	if (lead >= 0xe0 && lead < 0xf0)
		return 3;
	if (lead >= 0xf0 && lead < 0xf5)
		return 4;
	return 0;
}

uint32_t str_character(const char *s, size_t size, size_t *ret_bytes)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)s;
	size_t n = sequence_length(p[0]);

	*ret_bytes = 1;
	if (n == 0 || n > size)
		return 0xfffd;
	if (n == 1)
		return p[0];
	uint32_t c = p[0] & (0x7fu >> n);

	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0xfffd;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0xfffd;
	*ret_bytes = n;
	return c;
}

static bool in_ranges(uint32_t c, const uint32_t (*ranges)[2], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (c >= ranges[i][0] && c <= ranges[i][1])
			return true;
	return false;
}

/* What moves the cursor, changes the direction or cannot be seen. */
static bool is_control(uint32_t c)
{
	static const uint32_t ranges[][2] = { { 0, 0x1f }, { 0x7f, 0x9f },
		{ 0xad, 0xad }, { 0x61c, 0x61c }, { 0x200b, 0x200f },
		{ 0x2028, 0x202e }, { 0x2060, 0x206f }, { 0xfeff, 0xfeff },
		{ 0xfff9, 0xfffb }, { 0xe0000, 0xe007f } };

	return in_ranges(c, ranges, sizeof(ranges) / sizeof(ranges[0]));
}

unsigned str_character_width(uint32_t c)
{
	/* Marks that sit on the character before; the common blocks. */
	static const uint32_t combining[][2] = { { 0x300, 0x36f }, { 0x483, 0x489 },
		{ 0x591, 0x5bd }, { 0x610, 0x61a }, { 0x64b, 0x65f }, { 0x93c, 0x93c },
		{ 0x94d, 0x94d }, { 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff },
		{ 0x20d0, 0x20ff }, { 0xfe00, 0xfe0f }, { 0xfe20, 0xfe2f },
		{ 0xe0100, 0xe01ef } };
	static const uint32_t wide[][2] = { { 0x1100, 0x115f }, { 0x2e80, 0x303e },
		{ 0x3041, 0x33ff }, { 0x3400, 0x4dbf }, { 0x4e00, 0x9fff },
		{ 0xa000, 0xa4cf }, { 0xac00, 0xd7a3 }, { 0xf900, 0xfaff },
		{ 0xfe30, 0xfe6f }, { 0xff00, 0xff60 }, { 0xffe0, 0xffe6 },
		{ 0x1f300, 0x1f64f }, { 0x1f680, 0x1f6ff }, { 0x1f900, 0x1f9ff },
		{ 0x20000, 0x3fffd } };

	if (in_ranges(c, combining, sizeof(combining) / sizeof(combining[0])))
		return 0;
	return in_ranges(c, wide, sizeof(wide) / sizeof(wide[0])) ? 2 : 1;
}

size_t str_width(const char *s, size_t size)
{
	size_t width = 0, n;

	for (; size != 0; s += n, size -= n)
		width += str_character_width(str_character(s, size, &n));
	return width;
}

void str_clean(struct buf *b, const char *s, size_t size, bool ascii)
{
	size_t n;

	for (; size != 0; s += n, size -= n) {
		uint32_t c = str_character(s, size, &n);

		if (ascii && (c > 0x7e || c < 0x20))
			buf_add_byte(b, '?');
		else if (is_control(c) || (c == 0xfffd && n == 1))
			buf_add_str(b, replacement);
		else
			buf_add(b, s, n);
	}
}

size_t str_fit(const char *s, size_t size, size_t columns)
{
	size_t used = 0, width = 0, n;

	while (used < size) {
		width += str_character_width(str_character(s + used, size - used, &n));
		if (width > columns)
			break;
		used += n;
	}
	return used;
}
