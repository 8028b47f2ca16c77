"""Coupled cluster with singles and doubles as texts that `einbound.Equations` reads.

Residuals `R1`, `R2` and the correlation energy `E` are made from amplitudes `t1`, `t2`, which
change with every call, and from integrals, which do not. The Fock matrix is taken whole: at a
solution both residuals vanish, and `t + R / D`, with the differences D of orbital energies, is
the next guess.
"""

from __future__ import annotations

#: Closed shells with three-index integrals B, (pq|rs) = sum over P of B[P,p,q] B[P,r,s].
#:
#: The equations in integrals that the singles dress: Koch, Christiansen, Kobayashi, Jorgensen,
#: Helgaker, Chem. Phys. Lett. 228, 233 (1994); their closed-shell form is that of Scuseria,
#: Janssen, Schaefer, J. Chem. Phys. 89, 7382 (1988); with density fitting: DePrince, Sherrill,
#: J. Chem. Theory Comput. 9, 2687 (2013). Of the ladder only the undressed part needs the factors
#: of two pairs of virtual orbitals, so that what it makes of integrals alone can be kept.
CLOSED_SHELL = """\
space occ: i j k l
space vir: a b c d
space aux: P
volatile t1, t2

# Integrals that never change, and factors dressed by the singles.
V[k,l,c,d] = Bov[P,k,c] Bov[P,l,d]
Xoo[P,k,i] = Bov[P,k,c] t1[i,c]
Xvo[P,a,i] = Bvv[P,a,c] t1[i,c]
Coo[P,k,i] = Boo[P,k,i] + Xoo[P,k,i]
Cvo[P,a,i] = Bov[P,i,a] + Xvo[P,a,i] - t1[k,a] Coo[P,k,i]
Cvv[P,a,c] = Bvv[P,a,c] - t1[k,a] Bov[P,k,c]

# The Fock matrix: of the density that the singles change, then dressed like the factors.
Y[P] = Bov[P,k,c] t1[k,c]
Hoo[k,i] = foo[k,i] + 2 Y[P] Boo[P,k,i] - Xoo[P,k,l] Boo[P,l,i]
Hov[k,c] = fov[k,c] + 2 Y[P] Bov[P,k,c] - Xoo[P,k,l] Bov[P,l,c]
Hvo[a,i] = fov[i,a] + 2 Y[P] Bov[P,i,a] - Xvo[P,a,l] Boo[P,l,i]
Hvv[a,c] = fvv[a,c] + 2 Y[P] Bvv[P,a,c] - Xvo[P,a,l] Bov[P,l,c]
Foo[k,i] = Hoo[k,i] + Hov[k,c] t1[i,c]
Fvo[a,i] = Hvo[a,i] + Hvv[a,c] t1[i,c] - t1[k,a] Foo[k,i]
Fvv[a,c] = Hvv[a,c] - t1[k,a] Hov[k,c]

# Doubles whose spins are summed, and their products with the factors.
u[i,j,a,b] = 2 t2[i,j,a,b] - t2[j,i,a,b]
Z[P,i,a] = u[i,k,a,c] Bov[P,k,c]
M[P,i,a] = Cvo[P,a,i] + Z[P,i,a]

R1[i,a] = Fvo[a,i] + u[i,k,a,c] Hov[k,c] + Z[P,i,c] Cvv[P,a,c] - Z[P,k,a] Coo[P,k,i]

# Rings, the ladder of holes, and what the doubles add to the Fock matrix.
J[k,i,a,c] = Coo[P,k,i] Cvv[P,a,c]
Wc[k,i,a,c] = J[k,i,a,c] - 1/2 t2[l,i,a,d] V[k,l,d,c]
Wd[k,i,a,c] = J[k,i,a,c] + 1/2 u[i,l,a,d] V[k,l,d,c]
G[i,j,a,b] = t2[k,j,b,c] Wc[k,i,a,c]
U[k,l,i,j] = t2[i,j,c,d] V[k,l,c,d]
Eoo[k,j] = Foo[k,j] + Z[P,j,c] Bov[P,k,c]
Evv[b,c] = Fvv[b,c] - Z[P,k,b] Bov[P,k,c]

# What counts for both pairs (i,a), (j,b) of a double, and the doubles.
N[i,j,a,b] = t2[i,j,a,c] Evv[b,c] - t2[i,k,a,b] Eoo[k,j]
  - t1[k,a] Bov[P,k,c] Bvv[P,b,d] t2[i,j,c,d]
  - 1/2 G[i,j,a,b] - G[j,i,a,b] - 1/2 u[j,k,b,c] Wd[k,i,a,c]
R2[i,j,a,b] = M[P,i,a] M[P,j,b]
  + Bvv[P,a,c] Bvv[P,b,d] t2[i,j,c,d]
  + t1[k,a] t1[l,b] U[k,l,i,j] + t2[k,l,a,b] U[k,l,i,j]
  + t2[k,l,a,b] Coo[P,k,i] Coo[P,l,j]
  + S(ia;jb) N[i,j,a,b]

E = 2 fov[i,a] t1[i,a] + (2 V[i,j,a,b] - V[i,j,b,a]) (t2[i,j,a,b] + t1[i,a] t1[j,b])
"""

#: Spin orbitals with antisymmetric integrals v: Stanton, Gauss, Watts, Bartlett, J. Chem. Phys.
#: 94, 4334 (1991), equations 1 to 13.
SPIN_ORBITAL = """\
space occ: i j m n
space vir: a b e f
volatile t1, t2

tt[i,j,a,b] = t2[i,j,a,b] + 1/2 P(a,b) t1[i,a] t1[j,b]
tau[i,j,a,b] = t2[i,j,a,b] + P(a,b) t1[i,a] t1[j,b]

Fov[m,e] = fov[m,e] + t1[n,f] voovv[m,n,e,f]
Foo[m,i] = foo[m,i] + 1/2 t1[i,e] fov[m,e] + t1[n,e] vooov[m,n,i,e]
  + 1/2 tt[i,n,e,f] voovv[m,n,e,f]
Fvv[a,e] = fvv[a,e] - 1/2 fov[m,e] t1[m,a] + t1[m,f] vovvv[m,a,f,e]
  - 1/2 tt[m,n,a,f] voovv[m,n,e,f]

Woooo[m,n,i,j] = voooo[m,n,i,j] + P(i,j) t1[j,e] vooov[m,n,i,e] + 1/4 tau[i,j,e,f] voovv[m,n,e,f]
Wvvvv[a,b,e,f] = vvvvv[a,b,e,f] + P(a,b) t1[m,b] vovvv[m,a,e,f] + 1/4 tau[m,n,a,b] voovv[m,n,e,f]
Wovvo[m,b,e,j] = t1[j,f] vovvv[m,b,e,f] - vovov[m,b,j,e] + t1[n,b] vooov[m,n,j,e]
  - (1/2 t2[j,n,f,b] + t1[j,f] t1[n,b]) voovv[m,n,e,f]

R1[i,a] = fov[i,a] + t1[i,e] Fvv[a,e] - t1[m,a] Foo[m,i] + t2[i,m,a,e] Fov[m,e]
  - t1[n,f] vovov[n,a,i,f] - 1/2 t2[i,m,e,f] vovvv[m,a,e,f] - 1/2 t2[m,n,a,e] vooov[m,n,i,e]

Goo[m,j] = Foo[m,j] + 1/2 t1[j,e] Fov[m,e]
Gvv[b,e] = Fvv[b,e] - 1/2 t1[m,b] Fov[m,e]

R2[i,j,a,b] = voovv[i,j,a,b]
  + P(a,b) t2[i,j,a,e] Gvv[b,e] - P(i,j) t2[i,m,a,b] Goo[m,j]
  + 1/2 tau[m,n,a,b] Woooo[m,n,i,j] + 1/2 tau[i,j,e,f] Wvvvv[a,b,e,f]
  + P(i,j) P(a,b) (t2[i,m,a,e] Wovvo[m,b,e,j] + t1[i,e] t1[m,a] vovov[m,b,j,e])
  + P(i,j) t1[i,e] vovvv[j,e,b,a] - P(a,b) t1[m,a] vooov[i,j,m,b]

E = fov[i,a] t1[i,a] + voovv[i,j,a,b] (1/4 t2[i,j,a,b] + 1/2 t1[i,a] t1[j,b])
"""


def sized(text: str, **extents: int) -> str:
    """A text with the extents of its spaces, such as occ=5, so that it can be planned early."""
    lines = []
    for line in text.splitlines():
        name = line.split(":")[0].removeprefix("space ")
        is_space = line.startswith("space ") and name in extents
        lines.append(f"{line} = {extents[name]}" if is_space else line)
    return "\n".join(lines)
