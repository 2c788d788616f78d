"""What people see of a memory: pages of events, chats and requests, and the web page that shows them."""
