/* Words of JSON: blanks, texts, numbers, and the words true, false and null, each copied as the reference writes it out.
 *
 * Invariants:
 *   - Every read lies before `end`; a position that is returned is at most `end`, or NULL to refuse.
 *   - A copy is no longer than what was read. Only a number may grow, and takes that from `spare_bytes`.
 *   - Copying a text may write a block where the rest of the text is going to be: one block beyond the last byte of a copy.
 */
#include <stdio.h>
#ifdef __SSE2__
#include <emmintrin.h>

enum { BLOCK = 16 };

static inline __m128i load_block(const byte *at) { return _mm_loadu_si128((const __m128i *)at); }

static inline unsigned equal_bytes(__m128i block, __m128i other) {
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, other));
}

static inline __m128i is_sign(__m128i block, char sign) { return _mm_cmpeq_epi8(block, _mm_set1_epi8(sign)); }

/* The bytes of a block that are no blanks, as bits. */
static inline unsigned other_than_blanks(__m128i block) {
    __m128i spaces = _mm_or_si128(is_sign(block, ' '), is_sign(block, '\n'));
    __m128i others = _mm_or_si128(is_sign(block, '\r'), is_sign(block, '\t'));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(spaces, others)) ^ 0xFFFF;
}

/* The bytes of a block that are not plain, as bits: also those below a space, and those of 128 and more, by their sign. */
static inline unsigned not_plain_in(__m128i block) {
    __m128i signs = _mm_or_si128(is_sign(block, '"'), is_sign(block, '\\'));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(signs, _mm_cmplt_epi8(block, _mm_set1_epi8(' '))));
}
#else
enum { BLOCK = WORD };
#endif

static const uint64_t ONES = 0x0101010101010101u, HIGH_BITS = 0x8080808080808080u;

/* How many bytes of a word come before the lowest high bit that is set; of words that begin at their lowest byte. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static inline int bytes_before(uint64_t bits) { return __builtin_ctzll(bits) / 8; }
#else
static inline int bytes_before(uint64_t bits) { return bits ? 0 : WORD; }
#endif

static const byte *skip_several_blanks(const byte *at, const byte *end) {
#ifdef __SSE2__
    for (; end - at >= BLOCK; at += BLOCK) {
        unsigned others = other_than_blanks(load_block(at));
        if (others) return at + __builtin_ctz(others);
    }
#endif
    for (;;) {
        while (end - at >= WORD) {
            uint64_t other = load_word(at) ^ ONES * ' ';
            if (other) {
                at += bytes_before(other);
                break;
            }
            at += WORD;
        }
        if (at == end || (*at != ' ' && *at != '\n' && *at != '\r' && *at != '\t')) return at;
        at++;
    }
}

static inline const byte *skip_blanks(const byte *at, const byte *end) {
    return at < end && *at > ' ' ? at : skip_several_blanks(at, end);
}

static inline bool is_digit(const byte *at, const byte *end) { return at < end && *at >= '0' && *at <= '9'; }

static bool is_plain(byte sign) { return sign >= ' ' && sign < 0x80 && sign != '"' && sign != '\\'; }

/* The bytes of a word that are not plain, as high bits; exact in the lowest of them. */
static uint64_t not_plain(uint64_t word) {
    uint64_t quote = word ^ ONES * '"', backslash = word ^ ONES * '\\';
    uint64_t found = (quote - ONES) & ~quote;
    found |= (backslash - ONES) & ~backslash;
    found |= (word - ONES * ' ') & ~word;
    return (found | word) & HIGH_BITS;
}

/* Where the plain characters end. */
static inline const byte *skip_plain(const byte *at, const byte *end) {
#ifdef __SSE2__
    for (; end - at >= BLOCK; at += BLOCK) {
        unsigned found = not_plain_in(load_block(at));
        if (found) return at + __builtin_ctz(found);
    }
#endif
    while (end - at >= WORD) {
        uint64_t found = not_plain(load_word(at));
        if (found) {
            at += bytes_before(found);
            break;
        }
        at += WORD;
    }
    while (at < end && is_plain(*at)) at++;
    return at;
}

/* The length of the UTF-8 character of several bytes, or 0 where there is none. */
static int character_size(const byte *at, const byte *end) {
    int size = *at >= 0xF0 ? 4 : *at >= 0xE0 ? 3 : 2;
    if (*at < 0xC2 || *at > 0xF4 || end - at < size) return 0;
    for (int tail = 1; tail < size; tail++) {
        if ((at[tail] & 0xC0) != 0x80) return 0;
    }
    if (*at == 0xE0 && at[1] < 0xA0) return 0; /* longer than needed */
    if (*at == 0xED && at[1] > 0x9F) return 0; /* half of a pair */
    if (*at == 0xF0 && at[1] < 0x90) return 0;
    if (*at == 0xF4 && at[1] > 0x8F) return 0; /* beyond the last character */
    return size;
}

/* Four hexadecimal digits, or -1. */
static int hex_code(const byte *at, const byte *end) {
    int code = 0;
    if (end - at < 4) return -1;
    for (int digit = 0; digit < 4; digit++) {
        byte sign = at[digit];
        int value = sign >= '0' && sign <= '9' ? sign - '0' : (sign | 32) >= 'a' && (sign | 32) <= 'f' ? (sign | 32) - 'a' + 10 : -1;
        if (value < 0) return -1;
        code = 16 * code + value;
    }
    return code;
}

/* Copies the character that a backslash at `at` begins: as itself, or as JSON if `as_json`. */
static const byte *copy_escape(const byte *at, const byte *end, byte **out, bool as_json) {
    static const char SIGNS[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
    byte *to = *out;
    if (end - at < 2) return NULL;
    byte sign = at[1];
    at += 2;
    if (sign != 'u') {
        const char *found = sign ? strchr(SIGNS, sign) : NULL;
        if (found == NULL) return NULL;
        if (as_json && sign != '/') {
            *to++ = '\\';
            *to++ = sign;
        } else {
            *to++ = (byte)MEANT[found - SIGNS];
        }
    } else {
        int code = hex_code(at, end);
        if (code < ' ' || (code >= 0xD800 && code <= 0xDFFF)) return NULL;
        at += 4;
        if (code < 0x80) {
            if (as_json && (code == '"' || code == '\\')) *to++ = '\\';
            *to++ = (byte)code;
        } else {
            if (code >= 0x800) *to++ = (byte)(0xE0 | code >> 12);
            *to++ = (byte)(code >= 0x800 ? 0x80 | (code >> 6 & 0x3F) : 0xC0 | code >> 6);
            *to++ = (byte)(0x80 | (code & 0x3F));
        }
    }
    *out = to;
    return at;
}

/* Copies a text from behind its opening quote up to its closing one, and returns what is behind that. */
static const byte *copy_text(const byte *at, const byte *end, byte **out, bool as_json) {
    byte *to = *out;
    for (;;) {
#ifdef __SSE2__
        while (end - at >= BLOCK) {
            __m128i block = load_block(at);
            _mm_storeu_si128((__m128i *)to, block);
            unsigned found = not_plain_in(block);
            int plain = found ? __builtin_ctz(found) : BLOCK;
            at += plain;
            to += plain;
            if (found) break;
        }
#endif
        while (end - at >= WORD) {
            uint64_t word = load_word(at);
            memcpy(to, &word, WORD);
            uint64_t found = not_plain(word);
            int plain = found ? bytes_before(found) : WORD;
            at += plain;
            to += plain;
            if (found) break;
        }
        while (at < end && is_plain(*at)) *to++ = *at++;
        if (at == end || *at < ' ') return NULL;
        if (*at == '"') {
            *out = to;
            return at + 1;
        }
        if (*at == '\\') {
            at = copy_escape(at, end, &to, as_json);
            if (at == NULL) return NULL;
        } else {
            int size = character_size(at, end);
            if (!size) return NULL;
            while (size--) *to++ = *at++;
        }
    }
}

/* Writes a double by the fewest digits that tell it apart, as the reference does; where that has an exponent, refuses. */
static bool write_double(int64_t *spare_bytes, const byte *start, int64_t size, byte **out) {
    char text[64], written[40], *stop, *digits = written + 1;
    if (size >= (int64_t)sizeof text || *spare_bytes < (int64_t)sizeof written) return false;
    memcpy(text, start, (size_t)size);
    text[size] = '\0';
    double value = strtod(text, &stop);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= ((uint64_t)1 << 52) - 1;
    if (*stop || value == 0 || value - value != 0) return false;
    value = value < 0 ? -value : value;
    for (int decimals = 14; decimals <= 16; decimals++) {
        snprintf(written, sizeof written, "%.*e", decimals, value);
        if (strtod(written, NULL) == value) break;
        if (!bits) return false; /* the neighbours of a power of two are not equally far */
    }
    if (written[1] != '.') return false; /* of another locale */
    char *exponent = strchr(written, 'e');
    if (exponent == NULL) return false;
    int64_t point = strtol(exponent + 1, NULL, 10) + 1, count = exponent - written - 1;
    digits[0] = written[0];
    while (count > 1 && digits[count - 1] == '0') count--;
    if (point <= -6 || point > 21) return false;
    byte *to = *out;
    if (text[0] == '-') *to++ = '-';
    if (point <= 0) *to++ = '0';
    for (int64_t at = point < 0 ? point : 0; at < count || at <= point; at++) {
        if (at == (point < 0 ? point : 0) && point <= 0) *to++ = '.';
        else if (at == point) *to++ = '.';
        *to++ = (byte)(at >= 0 && at < count ? digits[at] : '0');
    }
    int64_t growth = to - *out - size;
    if (growth > 0) *spare_bytes -= growth;
    *out = to;
    return true;
}

/* Copies few signs: as a block where there is one, which is quicker than as many as there are. */
static inline void copy_signs(const byte *start, int64_t size, const byte *end, byte **out) {
    if (size <= BLOCK && end - start >= BLOCK) memcpy(*out, start, BLOCK);
    else memcpy(*out, start, (size_t)size);
    *out += size;
}

/* Copies a number as the reference writes it: a whole number of 64 bits as it is, a fraction of at most 15 digits, which
 * every double tells apart, without zeros at its end. */
static const byte *copy_number(int64_t *spare_bytes, const byte *at, const byte *end, byte **out) {
    const byte *start = at, *whole, *point, *last;
    bool negative = at < end && *at == '-';
    at += negative;
    whole = at;
    if (!is_digit(at, end)) return NULL;
    if (*at == '0') at++;
    else while (is_digit(at, end)) at++;
    if (at == end || (*at != '.' && *at != 'e' && *at != 'E')) {
        static const char LARGEST[] = "18446744073709551615", SMALLEST[] = "9223372036854775808";
        int64_t digits = at - whole, most = negative ? 19 : 20;
        if (digits > most || (digits == most && memcmp(whole, negative ? SMALLEST : LARGEST, (size_t)digits) > 0)) return NULL;
        if (negative && *whole == '0') return NULL;
        copy_signs(start, at - start, end, out);
        return at;
    }
    bool is_plain_fraction = *at == '.';
    point = at;
    if (*at == '.') {
        at++;
        if (!is_digit(at, end)) return NULL;
        while (is_digit(at, end)) at++;
    }
    last = at;
    if (at < end && (*at == 'e' || *at == 'E')) {
        is_plain_fraction = false;
        at++;
        if (at < end && (*at == '+' || *at == '-')) at++;
        if (!is_digit(at, end)) return NULL;
        while (is_digit(at, end)) at++;
    }
    while (is_plain_fraction && last[-1] == '0' && last > point + 2) last--;
    bool is_zero = *whole == '0' && last == point + 2 && point[1] == '0';
    if (is_plain_fraction && last - whole <= 16 && (*whole != '0' || point[1] != '0' || (is_zero && !negative))) {
        copy_signs(start, last - start, end, out);
        return at;
    }
    return write_double(spare_bytes, start, at - start, out) ? at : NULL;
}

static const byte *copy_word(const byte *at, const byte *end, byte **out) {
    static const char *const WORDS[] = {"true", "false", "null"};
    for (int word = 0; word < 3; word++) {
        size_t size = strlen(WORDS[word]);
        if ((size_t)(end - at) >= size && !memcmp(at, WORDS[word], size)) {
            memcpy(*out, at, size);
            *out += size;
            return at + size;
        }
    }
    return NULL;
}
