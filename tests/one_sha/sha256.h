/* SHA-256, by FIPS 180-4. */
#ifndef UMBO_TESTS_ONE_SHA_SHA256_H
#define UMBO_TESTS_ONE_SHA_SHA256_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SHA_TEXT = 65 };

struct sha256 {
    uint32_t state[8];
    uint8_t block[64];
    uint64_t length; /* of all bytes so far */
};

static uint32_t sha256_turned(uint32_t word, int by) { return word >> by | word << (32 - by); }

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static void sha256_block(struct sha256 *sha) {
    uint32_t words[64], s[8];
    int t;
    for (t = 0; t < 16; t++) {
        const uint8_t *const bytes = sha->block + 4 * t;
        words[t] = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    }
    for (; t < 64; t++) {
        const uint32_t a = words[t - 15], b = words[t - 2];
        words[t] = words[t - 16] + words[t - 7] + (sha256_turned(a, 7) ^ sha256_turned(a, 18) ^ a >> 3) +
                   (sha256_turned(b, 17) ^ sha256_turned(b, 19) ^ b >> 10);
    }
    memcpy(s, sha->state, sizeof(s));
    for (t = 0; t < 64; t++) {
        const uint32_t first = s[7] + (sha256_turned(s[4], 6) ^ sha256_turned(s[4], 11) ^ sha256_turned(s[4], 25)) +
                               ((s[4] & s[5]) ^ (~s[4] & s[6])) + sha256_constants[t] + words[t];
        const uint32_t second = (sha256_turned(s[0], 2) ^ sha256_turned(s[0], 13) ^ sha256_turned(s[0], 22)) +
                                ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof(s[0]));
        s[4] += first;
        s[0] = first + second;
    }
    for (t = 0; t < 8; t++) sha->state[t] += s[t];
}

static void sha256_begin(struct sha256 *sha) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, start, sizeof(start));
    sha->length = 0;
}

static void sha256_add(struct sha256 *sha, const void *data, size_t bytes) {
    const uint8_t *const from = (const uint8_t *)data;
    size_t at;
    for (at = 0; at < bytes; at++) {
        sha->block[sha->length++ % 64] = from[at];
        if (sha->length % 64 == 0) sha256_block(sha);
    }
}

/* As 64 digits. */
static void sha256_end(struct sha256 *sha, char text[SHA_TEXT]) {
    const uint64_t bits = sha->length * 8;
    uint8_t length[8];
    int at;
    for (at = 0; at < 8; at++) length[at] = (uint8_t)(bits >> (56 - 8 * at));
    sha256_add(sha, "\x80", 1);
    while (sha->length % 64 != 56) sha256_add(sha, "", 1);
    sha256_add(sha, length, sizeof(length));
    for (at = 0; at < 8; at++) snprintf(text + 8 * at, 9, "%08x", (unsigned)sha->state[at]);
}

#endif
