// Who knows the job's secret: the C++ twin of horovod/runner/common/util/proof.py, for Gloo's ranks that ask the
// rendezvous server. This file is no part of Horovod 0.28.1: it joins our build (env/HOROVOD.md).
//
// SHA-256 as in FIPS 180-4, HMAC as in RFC 2104.

#ifndef HOROVOD_GLOO_PROOF_H
#define HOROVOD_GLOO_PROOF_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace horovod {
namespace common {
namespace proof {

inline uint32_t RotateRight(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

inline void Compress(uint32_t state[8], const unsigned char* block) {
  static const uint32_t k[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  uint32_t w[64];
  for (int t = 0; t < 16; ++t) {
    w[t] = static_cast<uint32_t>(block[4 * t]) << 24 | static_cast<uint32_t>(block[4 * t + 1]) << 16 |
           static_cast<uint32_t>(block[4 * t + 2]) << 8 | static_cast<uint32_t>(block[4 * t + 3]);
  }
  for (int t = 16; t < 64; ++t) {
    uint32_t s0 = RotateRight(w[t - 15], 7) ^ RotateRight(w[t - 15], 18) ^ (w[t - 15] >> 3);
    uint32_t s1 = RotateRight(w[t - 2], 17) ^ RotateRight(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  uint32_t v[8];
  for (int i = 0; i < 8; ++i) {
    v[i] = state[i];
  }
  for (int t = 0; t < 64; ++t) {
    uint32_t s1 = RotateRight(v[4], 6) ^ RotateRight(v[4], 11) ^ RotateRight(v[4], 25);
    uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    uint32_t first = v[7] + s1 + choice + k[t] + w[t];
    uint32_t s0 = RotateRight(v[0], 2) ^ RotateRight(v[0], 13) ^ RotateRight(v[0], 22);
    uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    for (int i = 7; i > 0; --i) {
      v[i] = v[i - 1];
    }
    v[4] += first;
    v[0] = first + s0 + majority;
  }
  for (int i = 0; i < 8; ++i) {
    state[i] += v[i];
  }
}

// 32 bytes.
inline std::string Sha256(std::string text) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint64_t bits = static_cast<uint64_t>(text.size()) * 8;
  text += '\x80';
  text.append((120 - text.size() % 64) % 64, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) {
    text += static_cast<char>(bits >> shift & 0xff);
  }
  for (std::size_t at = 0; at < text.size(); at += 64) {
    Compress(state, reinterpret_cast<const unsigned char*>(text.data()) + at);
  }
  std::string result;
  for (uint32_t word : state) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      result += static_cast<char>(word >> shift & 0xff);
    }
  }
  return result;
}

inline std::string Hex(const std::string& bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string result;
  for (unsigned char byte : bytes) {
    result += digits[byte >> 4];
    result += digits[byte & 15];
  }
  return result;
}

// 32 bytes.
inline std::string Hmac(std::string key, const std::string& text) {
  if (key.size() > 64) {
    key = Sha256(key);
  }
  key.resize(64, '\0');
  std::string inner = key;
  std::string outer = key;
  for (int i = 0; i < 64; ++i) {
    inner[i] = static_cast<char>(inner[i] ^ 0x36);
    outer[i] = static_cast<char>(outer[i] ^ 0x5c);
  }
  return Sha256(outer + Sha256(inner + text));
}

// In a time that does not tell where they differ.
inline bool Same(const std::string& left, const std::string& right) {
  if (left.size() != right.size()) {
    return false;
  }
  unsigned char difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    difference |= static_cast<unsigned char>(left[i] ^ right[i]);
  }
  return difference == 0;
}

// The secret of this process's job; empty outside of a job, and then nothing is proven.
inline std::string JobKey() {
  const char* value = std::getenv("_HOROVOD_SECRET_KEY");
  return value == nullptr ? "" : value;
}

// The path of http://host:port/scope/key.
inline std::string Path(const std::string& url) {
  const std::size_t host = url.find("://");
  const std::size_t slash = url.find('/', host == std::string::npos ? 0 : host + 3);
  return slash == std::string::npos ? "/" : url.substr(slash);
}

// One request and its answer.
class Exchange {
public:
  Exchange(const std::string& method, const std::string& url, const std::string& body) : key_(JobKey()) {
    if (key_.empty()) {
      return;
    }
    std::random_device random;
    std::string number;
    for (int i = 0; i < 16; ++i) {
      number += static_cast<char>(random() & 0xff);
    }
    nonce_ = Hex(number);
    const std::string body_hash = Hex(Sha256(body));
    const std::string text = "horovod http request\n" + nonce_ + "\n" + method + "\n" + Path(url) + "\n" +
                             std::to_string(body.size()) + "\n" + body_hash;
    headers_ = {"X-Horovod-Nonce: " + nonce_, "X-Horovod-Body: " + body_hash,
                "X-Horovod-Proof: " + Hex(Hmac(key_, text))};
  }

  // What the request carries.
  const std::vector<std::string>& Headers() const { return headers_; }

  // Is the answer from who knows the job's secret, and to this very request?
  bool Proves(int status, const std::vector<std::string>& headers, const std::vector<uint8_t>& body) const {
    if (key_.empty()) {
      return true;
    }
    const std::string name = "X-Horovod-Proof: ";
    const std::string text = "horovod http answer\n" + nonce_ + "\n" + std::to_string(status) + "\n" +
                             Hex(Sha256(std::string(body.begin(), body.end())));
    const std::string right = name + Hex(Hmac(key_, text));
    for (const std::string& header : headers) {
      if (Same(header, right)) {
        return true;
      }
    }
    return false;
  }

private:
  std::string key_;
  std::string nonce_;
  std::vector<std::string> headers_;
};

} // namespace proof
} // namespace common
} // namespace horovod

#endif // HOROVOD_GLOO_PROOF_H
