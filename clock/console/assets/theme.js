// Applies the chosen colours before the page is painted.
try {
  const chosen = localStorage.getItem('clockd.theme');
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* storage is off: the colours of the system */ }
